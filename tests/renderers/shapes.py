"""Surfaces and pictures for meshes that tests and the gallery make: each a small formula."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Float32, Int64, UInt8

Grid: TypeAlias = Float[np.ndarray, "h w"]
Formula: TypeAlias = Callable[[Grid, Grid], tuple[Grid, Grid, Grid]]
TURN = 2 * np.pi


@dataclass(frozen=True, eq=False)
class Surface:
    """A grid of corners over the texture square, two triangles a field, counter-clockwise from outside."""

    places: Float32[np.ndarray, "n 3"]
    normals: Float32[np.ndarray, "n 3"]
    uv: Float32[np.ndarray, "n 2"]
    faces: Int64[np.ndarray, "f 3"]


def surface(formula: Formula, across: int = 32, down: int = 24) -> Surface:
    """The points of a formula of u (to the right) and v (down), both from 0 to 1."""
    v, u = np.meshgrid(np.linspace(0, 1, down + 1), np.linspace(0, 1, across + 1), indexing="ij")

    def at(u: Grid, v: Grid) -> Float[np.ndarray, "h w 3"]:
        return np.stack(formula(u, v), axis=-1)

    inside_u, inside_v = np.clip(u, 1e-4, 1 - 1e-4), np.clip(v, 1e-4, 1 - 1e-4)
    step = 1e-5
    right = at(inside_u + step, inside_v) - at(inside_u - step, inside_v)
    below = at(inside_u, inside_v + step) - at(inside_u, inside_v - step)
    normals = np.cross(below, right)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    corner = np.arange(u.size).reshape(u.shape)
    one, two, three, four = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    faces = np.stack([one, two, three, one, three, four], axis=-1).reshape(-1, 3)
    uv = np.stack([u, v], axis=-1).reshape(-1, 2)
    places = at(u, v).reshape(-1, 3)
    return Surface(
        places.astype(np.float32), normals.reshape(-1, 3).astype(np.float32), uv.astype(np.float32), faces
    )


def ball(fine: int = 32) -> Surface:
    """A unit ball; the picture's left edge runs down its back."""
    return surface(
        lambda u, v: (
            -np.sin(TURN * u) * np.sin(np.pi * v),
            np.cos(np.pi * v),
            -np.cos(TURN * u) * np.sin(np.pi * v),
        ),
        fine,
        fine * 3 // 4,
    )


def pane() -> Surface:
    """A square that looks towards +Z, of side 2."""
    return surface(lambda u, v: (2 * u - 1, 1 - 2 * v, 0 * u), 8, 8)


def ring(thickness: float = 0.4, fine: int = 48) -> Surface:
    """A torus around the Y axis."""
    return surface(
        lambda u, v: (
            -np.sin(TURN * u) * (1 - thickness * np.cos(TURN * v)),
            thickness * np.sin(TURN * v),
            -np.cos(TURN * u) * (1 - thickness * np.cos(TURN * v)),
        ),
        fine,
        fine // 2,
    )


def tube() -> Surface:
    """Half a pipe, open at both ends and towards us."""
    return surface(lambda u, v: (-np.cos(np.pi * u), 1 - 2 * v, -np.sin(np.pi * u)), 24, 2)


def grid(size: int = 64) -> tuple[Grid, Grid]:
    """Places of the texels of a picture, x to the right and y down, both in (0, 1)."""
    y, x = (np.indices((size, size)) + 0.5) / size
    return x, y


def picture(*channels: object) -> UInt8[np.ndarray, "h w c"]:
    """A picture of channels in [0, 1]; numbers stand for even channels."""
    parts = np.broadcast_arrays(*(np.asarray(channel, float) for channel in channels))
    bytes_: UInt8[np.ndarray, "h w c"] = np.rint(np.clip(np.stack(parts, axis=-1), 0, 1) * 255).astype(
        np.uint8
    )
    return bytes_


def checks(fields: int = 4, size: int = 64) -> Grid:
    """0 and 1 in turn."""
    x, y = grid(size)
    board: Grid = (np.floor(x * fields) + np.floor(y * fields)) % 2
    return board


def arrow(size: int = 64) -> UInt8[np.ndarray, "s s 3"]:
    """An arrow that points up and right, a warm edge at its left and a foot: no turn of it looks alike."""
    x, y = grid(size)
    shaft = (np.abs(x + y - 1) < 0.12) & (x > 0.2) & (x < 0.75)
    head = (x > 0.5) & (y < 0.5) & (x - y > 0.35) & (np.maximum(1 - x, y) > 0.12)
    light, foot, edge = np.where(shaft | head, 0.1, 1.0), y > 0.8, x < 0.2
    return picture(light * (0.95 - 0.5 * foot), light * (0.9 - 0.5 * edge - 0.3 * foot), light * 0.75)


def bumps(waves: int = 4, size: int = 128) -> UInt8[np.ndarray, "s s 3"]:
    """The normal map of an egg box."""
    x, y = grid(size)
    slope_x, slope_y = (0.6 * np.sin(TURN * waves * along) for along in (x, y))
    length = np.sqrt(slope_x**2 + slope_y**2 + 1)
    return picture(0.5 + 0.5 * slope_x / length, 0.5 - 0.5 * slope_y / length, 0.5 + 0.5 / length)
