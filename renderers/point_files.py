"""Points of a surface as files: NPZ for programs, PLY for viewers."""

from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from renderers.points import PointSample

PointFormat: TypeAlias = Literal["npz", "ply"]
_PLY_NUMBERS, _PLY_BYTES = ("x", "y", "z", "nx", "ny", "nz"), ("red", "green", "blue")
_PLY_ROW = np.dtype([*((name, "<f4") for name in _PLY_NUMBERS), *((name, "u1") for name in _PLY_BYTES)])


def save_points(points: PointSample, path: Path) -> None:
    """Written as the suffix says: `.npz` with positions, normals and colors, or `.ply`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npz":
        np.savez_compressed(path, positions=points.positions, normals=points.normals, colors=points.colors)
    else:
        path.write_bytes(_ply(points))


def _ply(points: PointSample) -> bytes:
    rows = np.empty(len(points), _PLY_ROW)
    columns = [*points.positions.T, *points.normals.T, *points.colors.T]
    for name, column in zip((*_PLY_NUMBERS, *_PLY_BYTES), columns, strict=True):
        rows[name] = column
    fields = [f"property float {name}" for name in _PLY_NUMBERS]
    fields += [f"property uchar {name}" for name in _PLY_BYTES]
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}", *fields, "end_header"]
    return "".join(f"{line}\n" for line in head).encode() + rows.tobytes()
