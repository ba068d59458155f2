"""The look that every engine draws: how things are lit, and which faces let light through.

Lamps turn with the camera, so that every side of a shape is lit alike. Linear light throughout; directions
have length one and point away from the surface.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int64

from renderers.contracts import MeshMaterial, MeshModel, Rig

F = np.float32
# No name may be part of another name or word of the OpenGL shader, where each is replaced by its value.
WHITEST = F(0.85)  # no real surface is all white, and white things must show on white
BARE_REFLECTANCE = F(0.04)  # of anything but metal, seen straight on
SKY_LEVEL, SKY_RISE = F(0.325), F(0.075)  # light from all around, and how much more comes from above
KEY_LEVEL, FILL_LEVEL = F(0.58), F(0.16)
MIRROR_LEVEL, MIRROR_RISE = F(0.35), F(0.55)  # of what a mirror sees, below and how much more above
GLEAM_LEVEL = F(0.6)
METAL_LOSS = F(0.65)  # of diffuse light
SMOOTHEST, SHININESS_LIMIT = F(0.15), F(400)
GLEAM_SPREAD, GLEAM_LIMIT = F(25), F(4)
FLATTEST_BUMP = F(0.2)  # how far a normal map may lean a surface over
SHORTEST = F(1e-20)  # the length of a vector that has none
_SHADER_CONSTANTS = (
    "WHITEST",
    "BARE_REFLECTANCE",
    "SKY_LEVEL",
    "SKY_RISE",
    "KEY_LEVEL",
    "FILL_LEVEL",
    "MIRROR_LEVEL",
    "MIRROR_RISE",
    "GLEAM_LEVEL",
    "METAL_LOSS",
    "SMOOTHEST",
    "SHININESS_LIMIT",
    "GLEAM_SPREAD",
    "GLEAM_LIMIT",
    "FLATTEST_BUMP",
    "SHORTEST",
)
_KEY_LAMP = np.array([-0.45, 0.65, 0.8]) / np.linalg.norm([-0.45, 0.65, 0.8])  # in the camera's axes
_FILL_LAMP = np.array([0.75, 0.15, 0.65]) / np.linalg.norm([0.75, 0.15, 0.65])
_BALL = 1.001  # the model's ball, and a little for rounding
_CLEAR = 0.999
SOLID, CUT, CLEAR = range(3)


def shader_defines() -> dict[str, str]:
    """The constants that the OpenGL shader shares, as GLSL writes them."""
    return {name: str(float(str(globals()[name]))) for name in _SHADER_CONSTANTS}


def lamp_directions(
    poses: Float64[np.ndarray, "v 4 4"],
) -> tuple[Float32[np.ndarray, "3 v"], Float32[np.ndarray, "3 v"]]:
    """Where the key light and the fill light of each view stand, as directions in the world."""
    lamps = (np.einsum("vij,j->iv", poses[:, :3, :3], lamp) for lamp in (_KEY_LAMP, _FILL_LAMP))
    key, fill = (lamp.astype(np.float32) for lamp in lamps)
    return key, fill


def depth_range(rig: Rig) -> tuple[float, float]:
    """The greatest and the least 1/distance that a point of the unit ball can have in any view."""
    distances = np.linalg.norm(rig.poses[:, :3, 3], axis=1)
    return 1 / (float(distances.min()) - _BALL), 1 / (float(distances.max()) + _BALL)


def by_opacity(
    model: MeshModel,
) -> tuple[Int64[np.ndarray, " a"], Int64[np.ndarray, " b"], Int64[np.ndarray, " c"]]:
    """The faces that are solid, those with holes, and those that let light through."""
    kinds = np.array([opacity_of(model, material) for material in model.materials])[model.material_of]
    solid, cut, clear = (np.flatnonzero(kinds == kind) for kind in (SOLID, CUT, CLEAR))
    return solid, cut, clear


def opacity_of(model: MeshModel, material: MeshMaterial) -> int:
    """SOLID, CUT (with holes) or CLEAR; many files say BLEND and mean solid."""
    if material.alpha_mode != "BLEND":
        return CUT if material.alpha_mode == "MASK" else SOLID
    texture = material.base_texture
    least = material.base[3] * float(model.colors[:, 3].min())
    least *= 1.0 if texture is None else float(texture.texels[:, 3].min())
    return CLEAR if least < _CLEAR else SOLID
