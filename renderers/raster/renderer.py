"""The software renderer: whole views of a model."""

import functools
from collections.abc import Callable
from typing import TypeAlias, get_args

import numpy as np
from jaxtyping import UInt8

from multifold.compiling import compile_function
from renderers.contracts import Background, MeshError, MeshModel, Rig, Views, channel_count, check_view_size
from renderers.look import CLEAR, CUT, SOLID, depth_range, lamp_directions, opacity_of
from renderers.raster import scene as packed
from renderers.raster.compiling import byte_pointer, fingerprint, kernel, long_pointer
from renderers.raster.faces import DEPTH_BITS, set_edges, slot_of, span, weights_at
from renderers.raster.pixels import (
    MOST_LAYERS,
    SAMPLES_PER_SIDE,
    TRANSPARENT,
    count_layers,
    fill_layers,
    fill_pixel,
    layer_count,
    list_layer,
    list_quad,
)
from renderers.raster.scene import Addresses, FragmentPointers, Pointer, SceneNumbers, ScenePointers
from renderers.raster.shade import color_at, shade_fragments

MOST_FRAGMENTS_PER_VIEW = 100_000_000  # about two seconds
MOST_GLASS_FRAGMENTS = 20_000_000  # see-through fragments drawn at once
TOO_MANY_LARGE_FACES = "too many large faces lie behind each other. Simplify the mesh first."
TOO_MANY_CLEAR_FACES = "too many transparent faces lie behind each other. Make some of them opaque."
SeeKernel: TypeAlias = Callable[[Addresses, SceneNumbers, int], tuple[int, int]]
PaintKernel: TypeAlias = Callable[[Addresses, SceneNumbers, Addresses, int, bool, int], None]
TOO_MANY_FRAGMENTS = -1
_NUMBERS = "Tuple((int64, int64, int64, int64, boolean, float64, float64))"
_SCENE = f"UniTuple(int64, {len(packed.ARRAYS)}), {_NUMBERS}"


@functools.cache
def compile_entries() -> tuple[SeeKernel, PaintKernel]:
    """Two compiled steps: `see` finds what is nearest at each sample, `paint` makes it a picture."""
    version = fingerprint()  # entries close over it, which makes it part of the key of their machine code

    @compile_function(f"UniTuple(int64, 2)({_SCENE}, int64)")
    def see(at: Addresses, numbers: SceneNumbers, starts: int) -> tuple[int, int]:
        """How many see-through fragments there are, in all and in a row, counted at `starts` if not 0."""
        scene = packed.scene_pointers(at, numbers)
        _look_from(scene)
        if version < 0 or not (_draw_solid(scene) and _draw_cut_outs(scene)):
            return TOO_MANY_FRAGMENTS, 0
        return count_layers(scene, long_pointer(starts)) if starts else (0, 0)

    @compile_function(
        f"void({_SCENE}, UniTuple(int64, {len(packed.FragmentArrays._fields)}), int64, boolean, int64)"
    )
    def paint(
        at: Addresses, numbers: SceneNumbers, room: Addresses, picture: int, glass: bool, behind: int
    ) -> None:
        """Write the bytes of the picture; `behind` is the number of its background."""
        if version >= 0:
            listed = packed.fragment_pointers(room)
            target = byte_pointer(picture)
            _paint(packed.scene_pointers(at, numbers), listed, target, glass, behind)

    return see, paint


@kernel
def _look_from(scene: ScenePointers) -> None:
    """Project the vertices, and forget the faces of the last view."""
    camera = scene.camera
    middle = scene.side / 2
    zoom = scene.camera[12]
    for vertex in range(0, 3 * scene.vertex_count, 3):
        x = scene.vertices[vertex] - camera[0]
        y = scene.vertices[vertex + 1] - camera[1]
        z = scene.vertices[vertex + 2] - camera[2]
        inverse = -1 / (x * camera[5] + y * camera[8] + z * camera[11])
        right = x * camera[3] + y * camera[6] + z * camera[9]
        up = x * camera[4] + y * camera[7] + z * camera[10]
        scene.screen[vertex] = middle + right * zoom * inverse
        scene.screen[vertex + 1] = middle - up * zoom * inverse
        scene.screen[vertex + 2] = inverse
    for slot in range(packed.SLOTS):
        scene.held[slot] = -1


@kernel
def _draw_solid(scene: ScenePointers) -> bool:
    """Let the solid faces compete for the samples; False if that takes too long."""
    keys = scene.keys
    fragments = 0
    for sample in range(scene.side * scene.side):
        keys[sample] = 0
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != SOLID:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for sample in range(row * scene.side + begin, row * scene.side + begin + count):
                keys[sample] = max(keys[sample], key)
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _draw_cut_outs(scene: ScenePointers) -> bool:
    """Let faces with holes compete; holes leave no trace."""
    fragments = 0
    for face in range(scene.face_count):
        material = scene.material_of[face]
        if scene.opacity_of[material] != CUT:
            continue
        cutoff = scene.materials[material * packed.MATERIAL_WIDTH + packed.CUTOFF]
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for column in range(begin, begin + count):
                if key > scene.keys[row * scene.side + column]:
                    slot = slot_of(scene, face)
                    color = color_at(scene, slot, weights_at(scene, slot, column + 0.5, row + 0.5))
                    if color[3] >= cutoff:
                        scene.keys[row * scene.side + column] = key
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _paint(
    scene: ScenePointers, listed: FragmentPointers, picture: Pointer, glass: bool, background: int
) -> None:
    """Row by row: list what lies in the pixels, shade it, add it up."""
    size = scene.side // 2
    channels = 4 if background == TRANSPARENT else 3
    if glass:
        fill_layers(scene, listed)
    for row in range(size):
        shade_fragments(scene, listed, _list_row(scene, listed, 2 * row, glass))
        for pixel in range(size):
            at = (row * size + pixel) * channels
            fill_pixel(scene, listed, pixel, picture, at, glass, background)


@kernel
def _list_row(scene: ScenePointers, listed: FragmentPointers, row: int, glass: bool) -> int:
    """List the fragments of a row of pixels; gives how many there are."""
    quad = 0
    count = 0
    keys = scene.keys
    for column in range(0, scene.side, 2):
        upper = row * scene.side + column
        lower, layers = upper + scene.side, 0
        listed.quads[column // 2] = quad
        if glass:
            layers = layer_count(scene, listed.starts, row, column)
        if layers or keys[upper] | keys[upper + 1] | keys[lower] | keys[lower + 1]:
            scene.four[0], scene.four[1] = keys[upper], keys[upper + 1]
            scene.four[2], scene.four[3] = keys[lower], keys[lower + 1]
            count, quad = list_quad(scene, listed, quad, count, row, column), quad + 1
        for layer in range(layers):
            count, quad = list_layer(scene, listed, layer, quad, count, row, column), quad + 1
    listed.quads[scene.side // 2] = quad
    return count


class SoftwareRenderer:
    """Draws on the CPU."""

    name = "software"
    version = "2"

    def __init__(self) -> None:
        self._see, self._paint = compile_entries()

    def render(self, model: MeshModel, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        check_view_size(size)
        painter = _ViewPainter(self._see, self._paint, model, rig, size)
        views = np.empty((len(rig), size, size, channel_count(background)), np.uint8)
        for number in range(len(rig)):
            painter.draw(number, background, views[number])
        return views


class _ViewPainter:
    """One model before the cameras of a rig: the arrays that kernels read, and room for what they write."""

    def __init__(self, see: SeeKernel, paint: PaintKernel, model: MeshModel, rig: Rig, size: int) -> None:
        self._see, self._paint, self._rig, self._size = see, paint, rig, size
        opacities = [opacity_of(model, material) for material in model.materials]
        self._textures = packed.distinct_textures(model)
        self._mesh = packed.mesh_arrays(model)
        self._materials = packed.material_arrays(model, self._textures, opacities)
        self._scratch = packed.scratch_arrays(model, size)
        self._at = packed.addresses_of(self._mesh, self._materials, self._scratch)
        samples = (size * SAMPLES_PER_SIDE) ** 2
        self._starts = np.empty(samples + 1 if CLEAR in opacities else 0, np.int64)
        eyes = rig.poses[:, :3, 3].T.astype(np.float32)
        self._lights = np.concatenate([eyes, *lamp_directions(rig.poses)]).T
        counts = len(model.vertices), len(model.faces), size * SAMPLES_PER_SIDE
        sets = 1 if model.uv1 is None else 2
        near, far = depth_range(rig)
        scale = (1 << DEPTH_BITS) / (near - far)  # from 1/distance to whole numbers
        self._numbers = (*counts, sets, model.colored, far, scale)

    def draw(self, number: int, background: Background, picture: UInt8[np.ndarray, "h w c"]) -> None:
        """Fill in the view of one camera."""
        pose = self._rig.poses[number]
        half_field = np.radians(self._rig.fov_degrees / 2)
        zoom = self._size * SAMPLES_PER_SIDE / 2 / np.tan(half_field)  # samples for a unit at distance 1
        self._scratch.camera[:] = [*pose[:3, 3], *pose[:3, :3].ravel(), zoom]
        self._scratch.lights[:] = self._lights[number]
        glass = len(self._starts) > 0
        layers, most_in_row = self._see(self._at, self._numbers, self._starts.ctypes.data if glass else 0)
        if layers == TOO_MANY_FRAGMENTS:
            raise MeshError(TOO_MANY_LARGE_FACES)
        if layers > MOST_GLASS_FRAGMENTS:
            raise MeshError(TOO_MANY_CLEAR_FACES)
        in_row = min(most_in_row, self._size * MOST_LAYERS)
        room = packed.fragment_arrays(self._size, in_row, layers, self._starts)
        behind = get_args(Background).index(background)
        self._paint(self._at, self._numbers, packed.addresses_of(room), picture.ctypes.data, glass, behind)
