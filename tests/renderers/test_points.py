"""Points of surfaces: spread by area, the same every time, with the colours of the place."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from renderers.contracts import BARE_ALBEDO, MeshError, MeshMaterial, MeshModel, MeshPart
from renderers.images.color import to_srgb
from renderers.mesh.load import assemble_model, load_model
from renderers.orders import MeshSource, PointOrder
from renderers.points import PointSample, sample_points
from renderers.sandbox import Sandbox
from tests.renderers import made
from tests.renderers.glb import Glb

QUARTERS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 0]]], np.uint8)


def triangles(*corners: tuple[tuple[float, float, float], ...]) -> MeshModel:
    places = np.array(corners, np.float64)
    return assemble_model([MeshPart.unshared(places.reshape(-1, 3), MeshMaterial())])


def dressed_square(folder: Path) -> MeshModel:
    """A square whose quarters have four colours; it fills the ball."""
    glb = Glb()
    pixels = QUARTERS.repeat(16, axis=0).repeat(16, axis=1)
    dress = glb.material(pbr={"baseColorTexture": {"index": glb.texture(pixels)}})
    glb.square(dress)
    return load_model(glb.save(folder))


def test_faces_have_points_by_their_area() -> None:
    small, large = ((0, 0, 0), (1, 0, 0), (0, 1, 0)), ((0, 0, 1), (3, 0, 1), (0, 3, 1))
    model = triangles(small, large)
    low = float(model.vertices[:, 2].min())
    for seed in range(3):
        sample = sample_points(model, 1000, seed)
        on_small = int((np.abs(sample.positions[:, 2] - low) < 1e-5).sum())
        assert abs(on_small - 100) <= 1  # one tenth of the area


def test_points_fill_a_face_evenly() -> None:
    model = triangles(((0, 0, 0), (1, 0, 0), (0, 1, 0)))
    positions = sample_points(model, 20_000).positions.astype(np.float64)
    assert np.allclose(positions.mean(0), model.vertices.mean(0), atol=0.01)
    corner, right, top = model.vertices[model.faces[0]].astype(np.float64)
    along, up = np.linalg.lstsq(
        np.stack([right - corner, top - corner], 1), (positions - corner).T, rcond=None
    )[0]
    assert min(along.min(), up.min()) > -1e-6
    assert (along + up).max() < 1 + 1e-6
    assert ((along < 0.5) & (up < 0.5) & (along + up > 0.5)).mean() == pytest.approx(0.25, abs=0.01)


def test_the_same_model_and_seed_give_the_same_points(tmp_path: Path) -> None:
    trimesh.creation.icosphere(2).export(tmp_path / "ball.stl")
    first, again = (sample_points(load_model(tmp_path / "ball.stl"), 512, 7).rows() for _ in range(2))
    assert (first == again).all()
    assert not (first == sample_points(load_model(tmp_path / "ball.stl"), 512, 8).rows()).all()


def test_positions_and_normals_are_those_of_the_model(tmp_path: Path) -> None:
    trimesh.creation.icosphere(4, radius=5.0).apply_translation((7, 8, 9)).export(tmp_path / "ball.stl")
    sample = sample_points(load_model(tmp_path / "ball.stl"), 4096)
    radius = np.linalg.norm(sample.positions, axis=1)
    assert radius.max() <= 1 + 1e-6
    assert radius.min() > 0.99
    assert np.allclose(np.linalg.norm(sample.normals, axis=1), 1, atol=1e-5)
    assert (np.einsum("nc,nc->n", sample.normals, sample.positions) > 0.98).all()
    assert (sample.colors == to_srgb(np.full(3, BARE_ALBEDO, np.float32))).all()


def test_points_are_upright(tmp_path: Path) -> None:
    trimesh.creation.box((1, 1, 10)).export(tmp_path / "pole.stl")  # STL has Z up
    spread = np.ptp(sample_points(load_model(tmp_path / "pole.stl"), 500).positions, axis=0)
    assert spread[1] > 5 * max(spread[0], spread[2])


def test_colors_are_those_of_the_texture_where_the_point_lies(tmp_path: Path) -> None:
    sample = sample_points(dressed_square(tmp_path), 4000)
    x, y = sample.positions[:, :2].T
    beside = np.abs(np.abs(sample.positions[:, :2]) - 0.35).max(axis=1)
    clear = beside < 0.3  # away from the seams and the border, where colours mix
    wanted = QUARTERS[(y < 0).astype(int), (x > 0).astype(int)]
    assert clear.sum() > 2000
    assert np.abs(sample.colors[clear].astype(int) - wanted[clear]).max() <= 1


def test_colors_are_those_of_the_vertices(tmp_path: Path) -> None:
    box = trimesh.creation.box()
    box.visual.vertex_colors = np.tile([255, 0, 0, 255], (8, 1))
    box.export(tmp_path / "red.ply")
    assert (sample_points(load_model(tmp_path / "red.ply"), 64).colors == (255, 0, 0)).all()


def cut_square(folder: Path, columns: int) -> MeshModel:
    """A square of whose texture so many columns are not there."""
    glb = Glb()
    pixels = np.full((16, 16, 4), 255, np.uint8)
    pixels[:, :columns, 3] = 0
    pbr = {"baseColorTexture": {"index": glb.texture(pixels)}}
    glb.square(glb.material(pbr=pbr, alphaMode="MASK"))
    return load_model(glb.save(folder))


def test_what_a_texture_cuts_away_has_no_points(tmp_path: Path) -> None:
    model = cut_square(tmp_path, 14)
    sample = sample_points(model, 2000)
    assert len(sample) == 2000
    # two of sixteen columns are there; the look-up mixes, and the picture repeats, hence half a texel around
    assert (np.abs(sample.positions[:, 0]) > model.vertices[:, 0].max() * 0.68).all()
    with pytest.raises(MeshError, match="no surface"):
        sample_points(cut_square(tmp_path, 16), 64)


def test_faces_without_area_are_refused_or_passed_over() -> None:
    line = ((0, 0, 0), (1, 0, 0), (2, 0, 0))
    with pytest.raises(MeshError, match="no surface: none of its faces has an area"):
        sample_points(triangles(line))
    sample = sample_points(triangles(line, ((0, 0, 0), (0, 1, 0), (1, 0, 0)), line), 500)
    assert np.isfinite(sample.rows()).all()
    assert sample.positions[:, 0].max() < 0.9  # nothing on the line beyond the triangle


@pytest.mark.parametrize("count", [0, 15, 100_001])
def test_counts_out_of_range_are_refused(count: int) -> None:
    with pytest.raises(MeshError, match="16 to 100,000 points"):
        sample_points(triangles(((0, 0, 0), (1, 0, 0), (0, 1, 0))), count)


def test_a_point_cloud_is_sampled_where_its_points_are(tmp_path: Path) -> None:
    places = np.random.default_rng(0).normal(size=(3000, 3))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    colors = np.tile(np.array([[0, 0, 255]], np.uint8), (3000, 1))
    (tmp_path / "cloud.ply").write_bytes(made.ply_points(places, colors))
    sample = sample_points(load_model(tmp_path / "cloud.ply"), 2048)
    assert np.linalg.norm(sample.positions, axis=1).min() > 0.85
    assert (sample.colors == (0, 0, 255)).all()


def test_a_worker_samples_what_we_sample(workers: Sandbox, tmp_path: Path) -> None:
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
    ours = sample_points(load_model(tmp_path / "box.stl"), 300, 5)
    theirs = workers.sample(MeshSource((tmp_path / "box.stl").read_bytes(), ".stl"), PointOrder(300, seed=5))
    assert (theirs.points.rows() == ours.rows()).all()
    assert theirs.report.up == "z"
    (tmp_path / "flat.obj").write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n")
    with pytest.raises(MeshError, match="no surface"):
        workers.sample(MeshSource(tmp_path / "flat.obj"), PointOrder(300))
    assert (PointSample.decode(ours.encode(), 300).rows() == ours.rows()).all()
