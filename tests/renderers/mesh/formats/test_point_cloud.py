"""Point clouds."""

from pathlib import Path

import numpy as np
import pytest

from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.load import load_model
from tests.renderers import made
from tests.renderers.glb import Glb, unlit
from tests.renderers.seeing import front, seen_at

RED, BLUE = (255, 0, 0), (0, 0, 255)


def saved(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def reddish(color: tuple[int, int, int]) -> bool:
    return color[0] > 100 > 60 > max(color[1:])


def bluish(color: tuple[int, int, int]) -> bool:
    return color[2] > 100 > 60 > max(color[:2])


def ball_of_points(count: int) -> np.ndarray:
    """Points spread over the unit sphere."""
    height = np.linspace(-1, 1, count)
    angle, radius = np.arange(count) * np.pi * (3 - np.sqrt(5)), np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), height, radius * np.sin(angle)], axis=1)


class TestPoints:
    def test_ply_points_have_their_colors_and_leave_no_holes(self, tmp_path: Path) -> None:
        points = ball_of_points(4000)
        colors = np.where(points[:, 1:2] > 0, [RED], [BLUE])
        views = front(saved(tmp_path, "p.ply", made.ply_points(points, colors)))
        assert reddish(seen_at(views, 0.0, 0.5))
        assert bluish(seen_at(views, 0.0, -0.5))
        row, column = np.mgrid[-31:33, -31:33]
        assert (views[0][row**2 + column**2 < 24**2] < 255).any(axis=-1).mean() > 0.99

    def test_obj_of_points(self, tmp_path: Path) -> None:
        text = "".join(f"v {x} {y} {z} 1 0 0\n" for x, y, z in ball_of_points(500))
        assert reddish(seen_at(front(saved(tmp_path, "p.obj", text)), 0, 0))

    def test_gltf_points(self, tmp_path: Path) -> None:
        glb = Glb()
        places = glb.accessor(ball_of_points(500).astype(np.float32))
        colors = glb.accessor(np.full((500, 3), (0, 0, 1), np.float32))
        glb.place(glb.mesh({"POSITION": places, "COLOR_0": colors}, mode=0, material=unlit(glb)))
        assert seen_at(front(glb.save(tmp_path)), 0, 0) == BLUE

    def test_normals_of_points_shade_them(self, tmp_path: Path) -> None:
        head = "ply\nformat ascii 1.0\nelement vertex 4\n"
        head += (
            "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz")) + "end_header\n"
        )
        rows = "".join(f"{x} {y} 0 0 0 1\n" for x in (0, 1) for y in (0, 1))
        assert (load_model(saved(tmp_path, "p.ply", head + rows)).normals == (0, 0, 1)).all()

    def test_a_large_cloud_is_thinned_and_says_so(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "p.ply", made.ply_points(ball_of_points(3000)))
        model = load_model(path, MeshLimits(points=1000))
        assert len(model.faces) == 8000
        assert "1,000 of its 3,000 points" in model.notes[0]

    def test_points_in_one_place(self, tmp_path: Path) -> None:
        with pytest.raises(MeshError, match="no extent"):
            load_model(saved(tmp_path, "p.obj", "v 1 2 3\nv 1 2 3\n"))
