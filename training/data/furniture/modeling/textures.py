"""Small pictures that tile, one for a finish. Rows run along v (across the grain), columns along u."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from training.data.furniture.modeling.palette import Finish

SIDE = 64
TURN = 2 * np.pi

Plane: TypeAlias = Float64[np.ndarray, "h w"]
Mask: TypeAlias = Bool[np.ndarray, "h w"]
Texture: TypeAlias = UInt8[np.ndarray, "h w 3"]


def texture(finish: Finish) -> Texture | None:
    """The picture of a finish, or None where it is one even colour."""
    u, v = np.meshgrid(np.arange(SIDE) / SIDE, np.arange(SIDE) / SIDE)
    base = np.asarray(finish.rgb, float)
    if finish.pattern is not None:
        chosen = PATTERNS[finish.pattern](u, v)
        return _picture(np.where(chosen[..., None], base, np.asarray(finish.second, float)))
    if finish.material not in GRAINS:
        return None
    light = GRAINS[finish.material](u, v)
    dark = np.minimum(light, 1)[..., None]
    bright = np.maximum(light - 1, 0)[..., None]
    return _picture(base * dark + 255 * bright)


def _picture(values: Float64[np.ndarray, "h w 3"]) -> Texture:
    picture: Texture = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return picture


def _wood(u: Plane, v: Plane) -> Plane:
    bent = v + 0.03 * np.sin(TURN * u) + 0.02 * np.sin(TURN * (2 * u + v))
    rings = 0.5 + 0.5 * np.sin(TURN * 5 * bent + 1.5 * np.sin(TURN * bent))
    light: Plane = 1.06 - 0.42 * rings**2
    return light


def _leather(u: Plane, v: Plane) -> Plane:
    seam = np.minimum(_to_line(2 * (u + v)), _to_line(2 * (u - v)))
    return np.where(seam < 0.09, 0.55, 0.92 + 0.16 * seam)


def _marble(u: Plane, v: Plane) -> Plane:
    drift = 0.12 * np.sin(TURN * (u + v)) + 0.06 * np.sin(TURN * (3 * u - v))
    vein = _to_line(u + v + drift)
    return np.where(vein < 0.05, 1.35, np.where(vein < 0.09, 0.7, 0.97 + 0.05 * np.sin(TURN * 2 * v)))


def _to_line(t: Plane) -> Plane:
    distance: Plane = np.abs(t - np.rint(t))
    return distance


def _odd(t: Plane) -> Mask:
    odd: Mask = np.floor(t) % 2 != 0
    return odd


GRAINS: Mapping[str, Callable[[Plane, Plane], Plane]] = {
    "wood": _wood,
    "fabric": lambda u, v: 0.96 + 0.08 * np.sin(TURN * 16 * u) * np.sin(TURN * 16 * v),
    "leather": _leather,
    "marble": _marble,
    "glass": lambda u, v: np.where(_to_line(u + v) < 0.12, 1.5, 1.25),  # slanting streaks of light
}
PATTERNS: Mapping[str, Callable[[Plane, Plane], Mask]] = {
    "striped": lambda _, v: _odd(v * 4),
    "checked": lambda u, v: _odd(u * 4) == _odd(v * 4),
    "dotted": lambda u, v: np.hypot(_to_line(2 * u) / 2, _to_line(2 * v) / 2) > 0.13,
}
