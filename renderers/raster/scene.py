"""A model as flat arrays, and the pointers by which kernels read and write them.

Legend: n vertices · f faces · m materials · t textures · l mip levels · s samples along a side · p pixels.
"""

from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64, UInt8

from renderers.contracts import MeshModel, Texture, TextureWrap
from renderers.images.color import BYTE_OF_LINEAR
from renderers.raster.compiling import kernel, pointers_of

UNLIT, CUTOFF, MATERIAL_WIDTH = 9, 10, 11  # columns of the material table
WRAPS: tuple[TextureWrap, ...] = ("repeat", "clamp", "mirror")
TEXTURES = ("base_texture", "metal_rough_texture", "normal_texture", "occlusion_texture", "emissive_texture")
CHANNELS, LEVELS, WRAP_U, WRAP_V, TRANSFORMED, NEAREST, UV_SET, MAP_WIDTH = 1, 2, 3, 4, 5, 6, 7, 8
MOST_LEVELS = 32
SLOTS, SLOT_VALUES = 512, 47  # how many faces are kept worked out, and what is kept of each (see faces.py)
LANES, BLOCK_ROWS = 256, 20  # how many fragments are lit at once, and what is known of each (see light.py)
Addresses: TypeAlias = tuple[int, ...]
SceneNumbers: TypeAlias = tuple[int, int, int, int, bool, float, float]  # the last fields of `ScenePointers`
Pointer: TypeAlias = Any  # to the numbers of one array
_STILL = np.array([[1, 0, 0], [0, 1, 0]], np.float32)


class MeshArrays(NamedTuple):
    """The geometry of a model."""

    vertices: Float32[np.ndarray, "n 3"]
    faces: Int32[np.ndarray, "f 3"]
    normals: Float32[np.ndarray, "f 3 3"]
    uv: Float32[np.ndarray, "n 2"]
    uv1: Float32[np.ndarray, "n 2"]
    colors: Float32[np.ndarray, "n 4"]
    material_of: Int32[np.ndarray, " f"]


class MaterialArrays(NamedTuple):
    """Materials and their textures."""

    opacity_of: Int32[np.ndarray, " m"]  # SOLID, CUT or CLEAR
    materials: Float32[np.ndarray, "m 11"]  # base (4), emissive (3), metallic, roughness, unlit, cutoff
    textures_of: Int32[np.ndarray, "m 5"]  # by TEXTURES; -1 for none
    maps: Int64[np.ndarray, "t 8"]  # the address of the texels, then as named above
    moves: Float32[np.ndarray, "t 8"]  # the transform, then log2 of its zoom and of the picture's side
    levels: Int64[np.ndarray, "t l 3"]  # width, height, first texel


class ScratchArrays(NamedTuple):
    """What kernels fill in, view after view."""

    camera: Float64[np.ndarray, " 13"]  # place, rotation row by row, zoom
    lights: Float32[np.ndarray, " 9"]  # the eye, the directions of the key and of the fill light
    bytes_of_light: UInt8[np.ndarray, " b"]
    screen: Float64[np.ndarray, "n 3"]
    keys: Int64[np.ndarray, "s s"]
    edges: Float64[np.ndarray, " 15"]
    held: Int64[np.ndarray, " k"]  # the face in each slot, -1 for none
    planes: Float64[np.ndarray, "k 9"]
    values: Float32[np.ndarray, "k 47"]
    block: Float32[np.ndarray, "r l"]  # fragments that are lit together (see light.py)
    four: Int64[np.ndarray, " 8"]  # the keys of a pixel's samples, then the faces that count for them
    glass: Float32[np.ndarray, " 16"]  # the light that each sample lets through; then what glass adds to each


class FragmentArrays(NamedTuple):
    """The fragments of one row of pixels (see pixels.py), and those of glass in the whole view (layers.py).

    A *quad* is four samples of one pixel: what is solid there, and then each layer of glass.
    """

    quads: Int64[np.ndarray, " w"]  # where each pixel's quads begin, and one more
    owners: Int64[np.ndarray, "q 4"]  # the fragment that each sample shows, -1 for none
    faces: Int64[np.ndarray, " k"]
    x: Float64[np.ndarray, " k"]
    y: Float64[np.ndarray, " k"]
    colors: Float32[np.ndarray, "k 4"]
    starts: Int64[np.ndarray, " S"]  # where the glass of each sample begins in `layers`, and one more
    layers: Int64[np.ndarray, " g"]  # keys, in a sample the nearest first


def mesh_arrays(model: MeshModel) -> MeshArrays:
    """The arrays of a model, row by row in memory."""
    second = model.uv if model.uv1 is None else model.uv1
    of_vertices = model.vertices, model.faces, model.normals, model.uv, second, model.colors
    return MeshArrays(*map(np.ascontiguousarray, (*of_vertices, model.material_of)))


def distinct_textures(model: MeshModel) -> list[Texture]:
    """Every texture once. Kernels know only where their texels lie: keep them while they draw."""
    every = [getattr(material, name) for material in model.materials for name in TEXTURES]
    return list({id(texture): texture for texture in every if texture is not None}.values())


def material_arrays(model: MeshModel, textures: list[Texture], opacities: list[int]) -> MaterialArrays:
    """The tables of a model's materials."""
    number = {id(texture): index for index, texture in enumerate(textures)}
    rows = [[number.get(id(getattr(one, name)), -1) for name in TEXTURES] for one in model.materials]
    table = [
        (*one.base, *one.emissive, one.metallic, one.roughness, one.unlit, one.alpha_cutoff)
        for one in model.materials
    ]
    maps, moves = np.zeros((len(textures), MAP_WIDTH), np.int64), np.zeros((len(textures), 8), np.float32)
    levels = np.zeros((len(textures), MOST_LEVELS, 3), np.int64)
    for place, texture in enumerate(textures):
        texels = texture.texels
        wraps = map(WRAPS.index, texture.wrap)
        assert texels.flags.c_contiguous
        assert texels.shape[1] in (3, 4)
        flags = texture.transform is not None, texture.magnify == "nearest", texture.uv_set
        maps[place] = texels.ctypes.data, texels.shape[1], len(texture.sizes), *wraps, *flags
        transform = _STILL if texture.transform is None else texture.transform
        moves[place] = *transform.ravel(), _log_zoom(transform), _log_side(texture)
        levels[place, : len(texture.sizes)] = np.column_stack([texture.sizes, texture.starts])
    return MaterialArrays(
        opacity_of=np.array(opacities, np.int32),
        materials=np.array(table, np.float32),
        textures_of=np.array(rows, np.int32),
        maps=maps,
        moves=moves,
        levels=levels,
    )


def _log_side(texture: Texture) -> float:
    """log2 of the picture's mean side, in texels."""
    return float(0.5 * np.log2(float(texture.sizes[0].prod())))


def _log_zoom(transform: Float32[np.ndarray, "2 3"]) -> float:
    """log2 of how much a transform stretches lengths."""
    area = abs(float(transform[0, 0] * transform[1, 1] - transform[0, 1] * transform[1, 0]))
    return float(0.5 * np.log2(max(area, 1e-12)))


def scratch_arrays(model: MeshModel, size: int) -> ScratchArrays:
    """Room to draw a view in."""
    side = 2 * size
    return ScratchArrays(
        camera=np.empty(13),
        lights=np.empty(9, np.float32),
        bytes_of_light=BYTE_OF_LINEAR,
        screen=np.empty((len(model.vertices), 3)),
        keys=np.empty((side, side), np.int64),
        edges=np.empty(15),
        held=np.empty(SLOTS, np.int64),
        planes=np.empty((SLOTS, 9)),
        values=np.empty((SLOTS, SLOT_VALUES), np.float32),
        block=np.zeros((BLOCK_ROWS, LANES), np.float32),
        four=np.empty(8, np.int64),
        glass=np.empty(16, np.float32),
    )


def fragment_arrays(
    size: int, layers_in_row: int, layers: int, starts: Int64[np.ndarray, " S"]
) -> FragmentArrays:
    """Room for the fragments of a row of pixels and for so many of glass."""
    quads = size + layers_in_row
    return FragmentArrays(
        np.empty(size + 1, np.int64),
        np.empty((quads, 4), np.int64),
        np.empty(4 * quads, np.int64),
        np.empty(4 * quads),
        np.empty(4 * quads),
        np.empty((4 * quads, 4), np.float32),
        starts,
        np.empty(layers, np.int64),
    )


def addresses_of(*groups: MeshArrays | MaterialArrays | ScratchArrays | FragmentArrays) -> Addresses:
    """Where each array begins."""
    return tuple(array.ctypes.data for group in groups for array in group)


ARRAYS = {**MeshArrays.__annotations__, **MaterialArrays.__annotations__, **ScratchArrays.__annotations__}
if TYPE_CHECKING:  # fields are pointers, which mypy does not know
    ScenePointers: TypeAlias = Any
    FragmentPointers: TypeAlias = Any
else:
    NUMBERS = ("vertex_count", "face_count", "side", "uv_sets", "colored", "far", "depth_scale")
    ScenePointers = namedtuple("ScenePointers", (*ARRAYS, *NUMBERS))
    FragmentPointers = namedtuple("FragmentPointers", FragmentArrays._fields)
_array_pointers = pointers_of(ARRAYS)
_fragment_array_pointers = pointers_of(FragmentArrays.__annotations__)


@kernel
def scene_pointers(at: Addresses, numbers: SceneNumbers) -> ScenePointers:
    """The scene whose arrays begin at these addresses.

    Its numbers: counts, the side in samples, texture coordinates of a vertex, whether vertices have colours
    of their own, the least 1/distance, and the scale from 1/distance to whole numbers.
    """
    return ScenePointers(*(_array_pointers(at) + numbers))


@kernel
def fragment_pointers(at: Addresses) -> FragmentPointers:
    """The lists that begin at these addresses."""
    return FragmentPointers(*_fragment_array_pointers(at))
