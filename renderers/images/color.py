"""sRGB bytes and linear light, by tables."""

import numpy as np
from jaxtyping import Float32, UInt8

_STEPS = 1 << 16


_bytes, _light = np.arange(256) / 255, np.arange(_STEPS) / (_STEPS - 1)
_decoded = np.where(_bytes <= 0.04045, _bytes / 12.92, ((_bytes + 0.055) / 1.055) ** 2.4)
_encoded = np.where(_light <= 0.0031308, _light * 12.92, 1.055 * _light ** (1 / 2.4) - 0.055)
LINEAR_OF_BYTE = _decoded.astype(np.float32)
BYTE_OF_LINEAR = np.rint(_encoded * 255).astype(np.uint8)


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


def cut_out(front: Float32[np.ndarray, "p 3"], rest: Float32[np.ndarray, " p"]) -> UInt8[np.ndarray, "p 4"]:
    """sRGB pixels with alpha of the light of a model; `rest` is the share that it leaves free.

    Colours are those of the covered part (not premultiplied), so edges have no rim.
    """
    covered = np.clip(1 - rest, 0, 1)
    alpha = np.rint(covered * 255).astype(np.uint8)
    own = to_srgb(front / np.maximum(covered, np.float32(1e-6))[:, None])
    return np.concatenate([own, alpha[:, None]], axis=1)
