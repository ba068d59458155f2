"""OBJ and PLY files: materials, pictures and colours."""

from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.renderers import made
from tests.renderers.seeing import front, seen_at

RED, BLUE = (255, 0, 0), (0, 0, 255)


def test_obj_with_material_library_and_texture(tmp_path: Path) -> None:
    Image.fromarray(np.array([[(255, 0, 0)], [(0, 0, 255)]], np.uint8).repeat(8, 0).repeat(8, 1)).save(
        tmp_path / "t.png"
    )
    (tmp_path / "m.mtl").write_text("newmtl a\nKd 1 1 1\nmap_Kd t.png\n")
    (tmp_path / "m.obj").write_text(
        "mtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
        "usemtl a\nf 1/1 2/2 3/3\nf 1/1 3/3 4/4\n"
    )
    views = front(tmp_path / "m.obj")
    upper, lower = seen_at(views, 0.0, 0.4), seen_at(views, 0.0, -0.4)
    assert upper[0] > 150 > 60 > upper[2]
    assert lower[2] > 150 > 60 > lower[0]


def test_ply_with_coloured_faces(tmp_path: Path) -> None:
    box = trimesh.creation.box()
    box.visual.face_colors = [200, 30, 30, 255]
    box.export(tmp_path / "box.ply")
    red, green, blue = seen_at(front(tmp_path / "box.ply"), 0.0, 0.0)
    assert red > 2 * green
    assert green == blue


def saved(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def bluish(color: tuple[int, int, int]) -> bool:
    return color[2] > 100 > 60 > max(color[:2])


class TestObj:
    MESH = "mtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nusemtl a\n"

    def test_glass(self, tmp_path: Path) -> None:
        saved(tmp_path, "m.mtl", "newmtl a\nKd 1 0 0\nd 0.5\n")
        solid, glass = front(saved(tmp_path, "m.obj", self.MESH + "f 1 2 3 4\n")), front(tmp_path / "m.obj")
        saved(tmp_path, "m.mtl", "newmtl a\nKd 1 0 0\n")
        solid = front(tmp_path / "m.obj")
        assert seen_at(glass, 0, 0)[1] > seen_at(solid, 0, 0)[1] + 80

    def test_a_missing_library_and_a_missing_picture_are_noted(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "m.obj", self.MESH + "f 1 2 3 4\n")
        assert "m.mtl" in load_model(path).notes[0]
        saved(tmp_path, "m.mtl", "newmtl a\nmap_Kd /home/someone/t.png\n")
        assert "t.png" in load_model(path).notes[0]

    def test_pictures_are_found_by_their_last_word(self, tmp_path: Path) -> None:
        saved(tmp_path, "t.png", made.png(BLUE))
        saved(tmp_path, "m.mtl", "newmtl a\nmap_Kd -s 1 1 1 C:\\models\\t.png\n")
        path = saved(tmp_path, "m.obj", self.MESH + "f 1/1 2/2 3/3 4/4\n")
        assert bluish(seen_at(front(path), 0, 0))

    def test_a_wider_folder_may_be_allowed(self, tmp_path: Path) -> None:
        (tmp_path / "models").mkdir()
        saved(tmp_path, "t.png", made.png(BLUE))
        saved(tmp_path / "models", "m.mtl", "newmtl a\nmap_Kd ../t.png\n")
        path = saved(tmp_path / "models", "m.obj", self.MESH + "f 1/1 2/2 3/3 4/4\n")
        with pytest.raises(MeshError, match="outside its folder"):
            load_model(path)
        assert load_model(path, within=tmp_path).materials[0].base_texture is not None

    def test_vertex_colors(self, tmp_path: Path) -> None:
        corners = "".join(f"v {x} {y} 0 0 0 1\n" for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
        assert bluish(seen_at(front(saved(tmp_path, "m.obj", corners + "f -4 -3 -2 -1\n")), 0, 0))
