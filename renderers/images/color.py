"""sRGB bytes and linear light, by tables, and the background behind a view."""

import numpy as np
from jaxtyping import Float, Float32, UInt8

from renderers.contracts import Background

_STEPS = 1 << 16


def _decode(encoded: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def _encode(linear: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


LINEAR_OF_BYTE = _decode(np.arange(256) / 255).astype(np.float32)
BYTE_OF_LINEAR = np.rint(_encode(np.arange(_STEPS) / (_STEPS - 1)) * 255).astype(np.uint8)


def to_linear(pixels: UInt8[np.ndarray, "*s"]) -> Float32[np.ndarray, "*s"]:
    """Linear light in [0, 1]."""
    light: Float32[np.ndarray, "*s"] = LINEAR_OF_BYTE[pixels]
    return light


def linear_rgba(pixels: UInt8[np.ndarray, "k 3"]) -> Float32[np.ndarray, "k 4"]:
    """Opaque colours in linear light."""
    light = np.ones((len(pixels), 4), np.float32)
    light[:, :3] = to_linear(pixels)
    return light


def to_srgb(light: Float32[np.ndarray, "*s"]) -> UInt8[np.ndarray, "*s"]:
    """The nearest sRGB byte; light beyond [0, 1] is cut."""
    steps = np.clip(light, 0, 1) * np.float32(_STEPS - 1) + np.float32(0.5)
    pixels: UInt8[np.ndarray, "*s"] = BYTE_OF_LINEAR[steps.astype(np.int32)]
    return pixels


def compose_on_background(
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
