"""What stands behind a model: white, black, or nothing, which leaves pictures with an alpha channel."""

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8

from renderers.color import to_srgb

Background: TypeAlias = Literal["white", "black", "transparent"]


def laid_on(
    background: Background,
    seen: Float32[np.ndarray, "p 3"],
    rest: Float32[np.ndarray, " p"],
    veil: Float32[np.ndarray, "p 3"] | None = None,
) -> UInt8[np.ndarray, "p c"]:
    """sRGB pixels: the light of a model and of a veil before it; `rest` is the share that it leaves free.

    Colours beside alpha are those of the covered part (not premultiplied), so edges have no rim.
    """
    light = seen + rest[:, None] if background == "white" else seen
    light = light if veil is None else light + veil
    if background != "transparent":
        return to_srgb(light)
    covered = np.clip(1 - rest, 0, 1)
    alpha = np.rint(covered * 255).astype(np.uint8)
    own = to_srgb(light / np.maximum(covered, np.float32(1e-6))[:, None])
    return np.concatenate([own, alpha[:, None]], axis=1)


def channels(background: Background) -> int:
    """How many numbers a pixel has."""
    return 4 if background == "transparent" else 3
