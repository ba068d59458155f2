"""What all parts share: a mesh as arrays, its limits, its errors, and the contract of a renderer.

A renderer draws validated arrays, not files. Conventions: right-handed, Y up, the front looks towards +Z
(glTF). Colours are linear light. Texture coordinates have their origin at the top left of the picture
(glTF). Vertices lie in the unit ball.

Every engine draws the same look (cameras, framing, light, materials) within a tolerance that the tests
state. An encoder that learned from the views of one engine can read those of another, so bundles record the
look. Caches of pictures, which promise the same bytes, depend on the engine and its version too.

Shape legend: n vertices · f faces · m materials · t texels of all mip levels · l mip levels · c channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64, UInt8

from multifold.errors import MultifoldError


class MeshError(MultifoldError):
    """A mesh file that cannot or will not be drawn."""


class MissingFileError(MeshError):
    """A file that the mesh names does not lie beside it."""


@dataclass(frozen=True)
class MeshLimits:
    """The largest file that is drawn; the defaults are generous for a machine with a few gigabytes."""

    file_bytes: int = 256 << 20  # the file, or the file and its siblings together
    unpacked_bytes: int = 1 << 30  # of what the file holds compressed, all together
    faces: int = 4_000_000  # after instancing
    vertices: int = 12_000_000  # after instancing
    instances: int = 20_000
    points: int = 50_000  # of one point cloud; of a larger one, so many are drawn
    image_pixels: int = 64_000_000  # of one picture, and of all of them together
    texture_side: int = 1024  # larger textures are shrunk to this

    def check(self, what: str, count: int, most: int) -> None:
        """Refuse more than `most`, naming what there is too much of."""
        if count > most:
            raise MeshError(f"the file has {count:,} {what}; at most {most:,} are drawn. Simplify it first.")


DEFAULT_LIMITS = MeshLimits()
AlphaMode: TypeAlias = Literal["OPAQUE", "MASK", "BLEND"]
TextureWrap: TypeAlias = Literal["repeat", "clamp", "mirror"]
TextureMagnification: TypeAlias = Literal["linear", "nearest"]
Axis: TypeAlias = Literal["y", "z"]
Up: TypeAlias = Literal["auto", "y", "z"]
Background: TypeAlias = Literal["white", "black", "transparent"]

MeshFacts: TypeAlias = Mapping[str, float | int | bool]  # numbers and yes or no, by name
Points: TypeAlias = Float64[np.ndarray, "n 3"]
Normals: TypeAlias = Float32[np.ndarray, "n 3"]
TextureCoordinates: TypeAlias = Float32[np.ndarray, "n 2"]
Colors: TypeAlias = Float32[np.ndarray, "n 4"]
Triangles: TypeAlias = Int64[np.ndarray, "f 3"]
Matrix: TypeAlias = Float64[np.ndarray, "4 4"]
RgbaPixels: TypeAlias = UInt8[np.ndarray, "h w 4"]

BARE_ALBEDO = 0.45  # linear grey of meshes that say nothing about their colour


@dataclass(frozen=True, eq=False)
class Texture:
    """A picture as a mip pyramid: the texels of all levels in one flat array, the largest level first."""

    texels: Float32[np.ndarray, "t c"]
    sizes: Int64[np.ndarray, "l 2"]  # width, height of each level
    wrap: tuple[TextureWrap, TextureWrap] = ("repeat", "repeat")
    transform: Float32[np.ndarray, "2 3"] | None = None  # of the coordinates, before the look-up
    magnify: TextureMagnification = "linear"  # "nearest" shows square texels when larger than a pixel
    uv_set: int = 0  # looked up by the model's `uv`, or 1: by its `uv1`

    @cached_property
    def starts(self) -> Int64[np.ndarray, " l"]:
        """Where each level begins in `texels`."""
        areas = self.sizes.prod(axis=1)
        return np.asarray(np.cumsum(areas) - areas)


@dataclass(frozen=True, eq=False)
class MeshMaterial:
    """The metallic-roughness model of glTF, as far as it is drawn."""

    base: tuple[float, float, float, float] = (BARE_ALBEDO, BARE_ALBEDO, BARE_ALBEDO, 1.0)
    metallic: float = 0.0
    roughness: float = 0.7
    emissive: tuple[float, float, float] = (0.0, 0.0, 0.0)
    alpha_mode: AlphaMode = "OPAQUE"
    alpha_cutoff: float = 0.5
    unlit: bool = False
    base_texture: Texture | None = None
    metal_rough_texture: Texture | None = None  # green: roughness, blue: metallic
    normal_texture: Texture | None = None
    occlusion_texture: Texture | None = None  # red
    emissive_texture: Texture | None = None

    @property
    def textures(self) -> list[Texture]:
        """Its pictures."""
        return [one for one in vars(self).values() if isinstance(one, Texture)]


@dataclass(frozen=True, eq=False)
class MeshPart:
    """One primitive of a file, placed in the world and not yet normalised."""

    vertices: Points
    faces: Triangles
    material: MeshMaterial
    normals: Normals | None = None
    uv: TextureCoordinates | None = None
    colors: Colors | None = None
    uv1: TextureCoordinates | None = None
    is_cloud: bool = False  # its faces stand for points

    @classmethod
    def unshared(
        cls,
        corners: Points,
        material: MeshMaterial,
        normals: Normals | None = None,
        uv: TextureCoordinates | None = None,
        colors: Colors | None = None,
    ) -> "MeshPart":
        """Faces of three vertices each that no other face has: what is given belongs to corners."""
        return cls(corners, np.arange(len(corners)).reshape(-1, 3), material, normals, uv, colors)


@dataclass(frozen=True, eq=False)
class MeshModel:
    """A whole mesh, centred and scaled into the unit ball; every vertex is used by a face."""

    vertices: Float32[np.ndarray, "n 3"]
    faces: Int32[np.ndarray, "f 3"]
    normals: Float32[np.ndarray, "f 3 3"]  # of each corner of each face
    uv: Float32[np.ndarray, "n 2"]
    colors: Float32[np.ndarray, "n 4"]  # multiplied with the material's
    material_of: Int32[np.ndarray, " f"]
    materials: tuple[MeshMaterial, ...]
    up: Axis = "y"  # the file's up axis
    up_reason: str = ""  # who says so: the caller, the format, or a guess
    notes: tuple[str, ...] = ()  # what a user should know: a missing texture, points left out
    uv1: Float32[np.ndarray, "n 2"] | None = None  # of the second set; normal maps use the first
    facts: MeshFacts = field(default_factory=dict)  # what was measured of the file

    @cached_property
    def colored(self) -> bool:
        return bool((self.colors != 1).any())


Views: TypeAlias = UInt8[np.ndarray, "v h w c"]  # c: 3, and alpha where the background is transparent

LOOK = "software-1"  # rises when views change so much that encoders must learn them anew
LARGEST_VIEW = 2048


class RenderEngineError(MultifoldError):
    """An engine that is unknown or does not work here."""


def check_view_size(size: int) -> None:
    """Refuse pictures that are too small to show or too large to hold."""
    if not 8 <= size <= LARGEST_VIEW:
        raise MeshError(f"views are drawn with 8 to {LARGEST_VIEW} pixels on a side, not {size}.")


def channel_count(background: Background) -> int:
    """The number of channels of a pixel: alpha is there where the background is transparent."""
    return 4 if background == "transparent" else 3


class RigError(MultifoldError):
    """A rig that is unknown or whose cameras stand inside the model."""


@dataclass(frozen=True, eq=False)
class Rig:
    """Where the cameras stand, camera-to-world, and their field of view (both ways: pictures are square)."""

    name: str
    poses: Float64[np.ndarray, "v 4 4"]
    fov_degrees: float

    def __post_init__(self) -> None:
        if np.linalg.norm(self.poses[:, :3, 3], axis=1).min() < 1.05:
            raise RigError(f"a camera of the rig {self.name!r} stands inside the model's unit ball")

    def __len__(self) -> int:
        return len(self.poses)


@runtime_checkable
class Renderer(Protocol):
    """One engine. The same model, rig, size and background give the same views on every call."""

    name: str
    version: str  # rises whenever a pixel may change

    def render(self, model: MeshModel, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        ...
