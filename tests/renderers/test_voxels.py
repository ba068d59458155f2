"""A surface as coloured voxels, against a plain loop over its points."""

from pathlib import Path

import numpy as np
import trimesh
from jaxtyping import UInt8

from renderers.mesh.load import load_model
from renderers.points import PointSample, sample_points
from renderers.voxels import VOXEL_POINTS, voxels


def plain(sample: PointSample, side: int) -> UInt8[np.ndarray, "x y z 4"]:
    """Cell by cell, as the definition says."""
    cells = np.zeros((side, side, side, 4), np.uint8)
    of: dict[tuple[int, ...], list[np.ndarray]] = {}
    for place, color in zip(sample.positions, sample.colors, strict=True):
        x, y, z = (min(side - 1, int((one + 1) / 2 * side)) for one in place.tolist())
        of.setdefault((x, y, z), []).append(color)
    for cell, colors in of.items():
        cells[cell] = np.append(np.round(np.mean(colors, axis=0)), 255)
    return cells


def sampled(folder: Path, count: int) -> PointSample:
    box = trimesh.creation.box((1, 2, 0.5))
    colors = np.random.default_rng(0).integers(0, 255, (len(box.vertices), 4)) | [0, 0, 0, 255]
    box.visual.vertex_colors = colors.astype(np.uint8)
    box.export(folder / "box.glb")
    return sample_points(load_model(folder / "box.glb"), count)


def test_a_cell_has_the_mean_colour_of_its_points(tmp_path: Path) -> None:
    sample = sampled(tmp_path, 500)
    assert np.array_equal(voxels(sample, 8), plain(sample, 8))


def test_a_surface_has_no_holes_and_no_inside(tmp_path: Path) -> None:
    sample = sampled(tmp_path, VOXEL_POINTS)
    filled = voxels(sample, 32)[..., 3] > 0
    low, high = (np.floor((edge(sample.positions, axis=0) + 1) * 16).astype(int) for edge in (np.min, np.max))
    box = filled[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))]
    assert box.sum() == filled.sum()
    assert box[0].all()
    assert box[-1].all()
    assert box[:, 0].all()
    assert box[:, :, -1].all()
    assert not box[2:-2, 2:-2, 2:-2].any()
    assert np.array_equal(voxels(sampled(tmp_path, VOXEL_POINTS), 32)[..., 3] > 0, filled)
