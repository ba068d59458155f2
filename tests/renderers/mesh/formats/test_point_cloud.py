"""Point clouds."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.glb import Glb, unlit
from tests.renderers.seeing import BLUE, RED, front, hue_at, seen_at


def ball_of_points(count: int) -> np.ndarray:
    """Points spread over the unit sphere."""
    height = np.linspace(-1, 1, count)
    angle, radius = np.arange(count) * np.pi * (3 - np.sqrt(5)), np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), height, radius * np.sin(angle)], axis=1)


def test_ply_points_have_their_colors_and_leave_no_holes(tmp_path: Path) -> None:
    points = ball_of_points(4000)
    colors = np.where(points[:, 1:2] > 0, [RED], [BLUE])
    views = front(put(tmp_path / "p.ply", made.ply_points(points, colors)))
    assert (hue_at(views, 0.0, 0.5), hue_at(views, 0.0, -0.5)) == ("red", "blue")
    row, column = np.mgrid[-31:33, -31:33]
    assert (views[0][row**2 + column**2 < 24**2] < 255).any(axis=-1).mean() > 0.99


def test_points_of_other_formats(tmp_path: Path) -> None:
    points = ball_of_points(500)
    text = "".join(f"v {x} {y} {z} 1 0 0\n" for x, y, z in points)
    assert hue_at(front(put(tmp_path / "p.obj", text)), 0, 0) == "red"
    glb = Glb()
    colors = glb.accessor(np.full((500, 3), (0, 0, 1), np.float32))
    places = glb.accessor(points.astype(np.float32))
    glb.place(glb.mesh({"POSITION": places, "COLOR_0": colors}, mode=0, material=unlit(glb)))
    assert seen_at(front(glb.save(tmp_path)), 0, 0) == BLUE


def test_normals_of_points_shade_them(tmp_path: Path) -> None:
    names = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    rows = "".join(f"{x} {y} 0 0 0 1\n" for x in (0, 1) for y in (0, 1))
    text = f"ply\nformat ascii 1.0\nelement vertex 4\n{names}end_header\n{rows}"
    assert (load_model(put(tmp_path / "p.ply", text)).normals == (0, 0, 1)).all()


def test_a_large_cloud_is_thinned_and_says_so(tmp_path: Path) -> None:
    path = put(tmp_path / "p.ply", made.ply_points(ball_of_points(3000)))
    model = load_model(path, MeshLimits(points=1000))
    assert len(model.faces) == 8000
    assert "1,000 of its 3,000 points" in model.notes[0]


def test_points_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match="no extent"):
        load_model(put(tmp_path / "p.obj", "v 1 2 3\nv 1 2 3\n"))
