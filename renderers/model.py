"""What a renderer draws: plain validated arrays, no files.

Conventions: right-handed, Y up, the front looks towards +Z (glTF). Colours are linear light. Texture
coordinates have their origin at the top left of the picture (glTF). Vertices lie in the unit ball.

Shape legend: n vertices · f faces · m materials · t texels of all mip levels · l mip levels · c channels.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

AlphaMode: TypeAlias = Literal["OPAQUE", "MASK", "BLEND"]
Wrap: TypeAlias = Literal["repeat", "clamp", "mirror"]
Magnify: TypeAlias = Literal["linear", "nearest"]
Axis: TypeAlias = Literal["y", "z"]

BARE_ALBEDO = 0.45  # linear grey of meshes that say nothing about their colour


@dataclass(frozen=True, eq=False)
class Texture:
    """A picture as a mip pyramid: the texels of all levels in one flat array, the largest level first."""

    texels: Float32[np.ndarray, "t c"]
    sizes: Int64[np.ndarray, "l 2"]  # width, height of each level
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    transform: Float32[np.ndarray, "2 3"] | None = None  # of the coordinates, before the look-up
    magnify: Magnify = "linear"  # "nearest" shows square texels where they are larger than a pixel
    uv_set: int = 0  # looked up by the model's `uv`, or 1: by its `uv1`

    @cached_property
    def starts(self) -> Int64[np.ndarray, " l"]:
        """Where each level begins in `texels`."""
        areas = self.sizes.prod(axis=1)
        starts: Int64[np.ndarray, " l"] = np.cumsum(areas) - areas
        return starts


@dataclass(frozen=True, eq=False)
class Material:
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


@dataclass(frozen=True, eq=False)
class Part:
    """One primitive of a file, placed in the world and not yet normalised."""

    vertices: Float64[np.ndarray, "n 3"]
    faces: Int64[np.ndarray, "f 3"]
    material: Material
    normals: Float32[np.ndarray, "n 3"] | None = None
    uv: Float32[np.ndarray, "n 2"] | None = None
    colors: Float32[np.ndarray, "n 4"] | None = None
    uv1: Float32[np.ndarray, "n 2"] | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """A whole mesh, centred and scaled into the unit ball; every vertex is used by a face."""

    vertices: Float32[np.ndarray, "n 3"]
    faces: Int32[np.ndarray, "f 3"]
    normals: Float32[np.ndarray, "f 3 3"]  # of each corner of each face
    uv: Float32[np.ndarray, "n 2"]
    colors: Float32[np.ndarray, "n 4"]  # multiplied with the material's
    material_of: Int32[np.ndarray, " f"]
    materials: tuple[Material, ...]
    up: Axis = "y"  # the file's up axis
    up_reason: str = ""  # who says so: the caller, the format, or a guess
    notes: tuple[str, ...] = ()  # what a user should know: a missing texture, points left out
    uv1: Float32[np.ndarray, "n 2"] | None = None  # of the second set; normal maps use the first

    @cached_property
    def colored(self) -> bool:
        """Whether any vertex has a colour of its own."""
        return bool((self.colors != 1).any())
