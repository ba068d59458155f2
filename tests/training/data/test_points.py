"""Points of items: sampled once, kept, and turned for training."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from multifold.bundle.point_groups import group_points
from multifold.manifest import ManifestEntry
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests.training import small
from training.data.points import PointsError, load_points, spun_points

SPEC = small.cloud_spec()


def test_items_are_sampled_once_and_kept(tmp_path: Path) -> None:
    for number in range(3):
        trimesh.creation.box((1, 2, 1 + number)).export(tmp_path / f"{number}.stl")
    entries = [ManifestEntry(str(number), mesh=tmp_path / f"{number}.stl") for number in range(3)]
    found = load_points(entries, SPEC, "auto", tmp_path / "cache")
    for entry, groups in zip(entries, found, strict=True):
        assert entry.mesh is not None
        sample = sample_points(load_model(entry.mesh), 64)
        assert np.array_equal(groups, group_points(sample.rows(), SPEC))
    kept = next((tmp_path / "cache").glob("points-*.npy"))
    before = kept.stat().st_mtime_ns
    assert np.array_equal(load_points(entries, SPEC, "auto", tmp_path / "cache"), found)
    assert kept.stat().st_mtime_ns == before
    load_points(entries, SPEC, "y", tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("points-*.npy"))) == 2


def test_items_without_a_surface_are_named(tmp_path: Path) -> None:
    with pytest.raises(PointsError, match="item seen has no mesh"):
        load_points([ManifestEntry("seen", images=(tmp_path / "a.png",))], SPEC, "auto", tmp_path)
    (tmp_path / "bad.glb").write_bytes(b"junk")
    with pytest.raises(PointsError, match=r"bad\.glb: this is not a GLB file"):
        load_points([ManifestEntry("bad", mesh=tmp_path / "bad.glb")], SPEC, "auto", tmp_path / "cache")


def test_a_spin_turns_directions_and_leaves_colours() -> None:
    groups = small.clouds(SPEC, 5)
    turned = spun_points(groups, 3, 180.0, np.random.default_rng(0))
    assert np.array_equal(turned[..., 9:], groups[..., 9:])
    for first in (0, 3, 6):
        old, new = groups[..., first : first + 3], turned[..., first : first + 3]
        assert np.allclose(np.linalg.norm(old, axis=-1), np.linalg.norm(new, axis=-1), atol=1e-5)
        assert np.array_equal(old[..., 1], new[..., 1])
    assert not np.allclose(turned[..., :3], groups[..., :3], atol=1e-2)
    assert np.array_equal(spun_points(groups, 3, 0.0, np.random.default_rng(0)), groups)
