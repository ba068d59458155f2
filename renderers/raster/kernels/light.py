"""How light meets a surface: the functions of `renderers.raster.light`, for a block of fragments at once.

A block is a table of float32 with a row for each value below and `LANES` fragments in each row. All lanes
are worked out alike and without branches, so that the compiler takes eight or sixteen at a time; powers,
too, are written so that it can.
"""

from typing import TypeAlias

import numpy as np

from renderers.raster import light
from renderers.raster.kernels.compiling import Single, inline_kernel, inline_twins, kernel
from renderers.raster.kernels.scene import LANES, Pointer, ScenePointers

Vector: TypeAlias = tuple[Single, Single, Single]
# rows: colours are overwritten by the light that reaches the camera
COLOR, ALPHA, POINT, NORMAL, FLAT, GLOW, METALLIC, ROUGHNESS, OCCLUSION, UNLIT = (
    row * LANES for row in (0, 3, 4, 7, 10, 13, 16, 17, 18, 19)
)
_EYE, _KEY_LAMP, _FILL_LAMP = 0, 3, 6  # of the scene's lights
_ZERO = np.float32(0)


(
    _,
    _,
    _,
    dot,
    _,
    subtract,
    scale_by,
    cross,
    unit_vector,
    lean_normal,
    _normal_seen_from,
    _,
    _,
    _reflected_light,
) = inline_twins(*light.BY_SCALARS)


@inline_kernel
def load_vector(values: Pointer, first: int) -> Vector:
    return values[first], values[first + 1], values[first + 2]


@inline_kernel
def _row(block: Pointer, row: int, lane: int) -> Vector:
    return block[row + lane], block[row + LANES + lane], block[row + 2 * LANES + lane]


@kernel
def light_fragments(scene: ScenePointers) -> None:
    """Replace the colours of a block by light."""
    block, eye = scene.block, load_vector(scene.lights, _EYE)
    lamps = load_vector(scene.lights, _KEY_LAMP), load_vector(scene.lights, _FILL_LAMP)
    for lane in range(LANES):
        color, unlit = _row(block, COLOR, lane), block[UNLIT + lane] > _ZERO
        to_eye = unit_vector(subtract(eye, _row(block, POINT, lane)))
        normal = _normal_seen_from(to_eye, _row(block, NORMAL, lane), _row(block, FLAT, lane))
        metallic, roughness = block[METALLIC + lane], block[ROUGHNESS + lane]
        finish = _row(block, GLOW, lane), metallic, roughness, block[OCCLUSION + lane]
        reflected = _reflected_light(color, finish, normal, to_eye, lamps)
        block[COLOR + lane] = color[0] if unlit else reflected[0]
        block[COLOR + LANES + lane] = color[1] if unlit else reflected[1]
        block[COLOR + 2 * LANES + lane] = color[2] if unlit else reflected[2]
