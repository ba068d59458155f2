"""A surface as coloured voxels: which cells of a cube it passes through, and their mean colour there.

    cells = voxels(sample_points(load_model(Path("chair.glb")), VOXEL_POINTS), side=32)

A cell is filled where at least one point of a sample lies in it, so what decides a sample decides its voxels.
The cube holds the unit ball, in which every model lies.
"""

import numpy as np
from jaxtyping import UInt8

from renderers.points import PointSample

VOXEL_POINTS = 65_536  # of a sample: several for most cells of a surface, with up to 64 cells a side


def voxels(sample: PointSample, side: int) -> UInt8[np.ndarray, "x y z 4"]:
    """sRGB of each cell, and 255 where it is filled; all zero where it is empty."""
    place = np.clip(((sample.positions + 1) / 2 * side).astype(np.int64), 0, side - 1)
    cell = (place[:, 0] * side + place[:, 1]) * side + place[:, 2]
    count = np.bincount(cell, minlength=side**3)
    filled = count > 0
    cells = np.zeros((side**3, 4), np.uint8)
    for channel in range(3):
        sums = np.bincount(cell, sample.colors[:, channel], side**3)
        cells[filled, channel] = np.round(sums[filled] / count[filled])
    cells[filled, 3] = 255
    return cells.reshape(side, side, side, 4)
