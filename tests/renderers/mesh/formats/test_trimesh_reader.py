"""OBJ and PLY files: materials, pictures and colours."""

import re
from pathlib import Path

import numpy as np
import pytest
import trimesh

from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.seeing import BLUE, RED, front, hue_at, seen_at

OBJ = "mtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nusemtl a\n"
BARE, DRESSED = OBJ + "f 1 2 3 4\n", OBJ + "f 1/1 2/2 3/3 4/4\n"


def test_obj_with_material_library_and_texture(tmp_path: Path) -> None:
    put(tmp_path / "t.png", made.png(RED, BLUE))
    put(tmp_path / "m.mtl", "newmtl a\nKd 1 1 1\nmap_Kd t.png\n")
    views = front(put(tmp_path / "m.obj", DRESSED))
    assert (hue_at(views, 0.0, 0.4), hue_at(views, 0.0, -0.4)) == ("red", "blue")


@pytest.mark.parametrize(
    "faces",
    ["f 1/1 2/2 3/3 4/4", "f 1/1 2/2 3/3\nf 1/1 3/3 4/4", "f 1/1 2/2 3/3 4/4\nf 2/4 1/3 4/2 3/1"],
    ids=["a quad", "triangles", "seams"],
)
def test_corners_have_the_texture_that_their_face_names(tmp_path: Path, faces: str) -> None:
    put(tmp_path / "t.png", made.png(RED, BLUE))
    put(tmp_path / "m.mtl", "newmtl a\nmap_Kd t.png\n")
    model = load_model(put(tmp_path / "m.obj", f"{OBJ}{faces}\n"))
    places, upward = (np.sign(model.vertices[:, :2]) > 0), 1 - model.uv[:, 1]
    found = {(*place, u, v) for place, u, v in zip(places.tolist(), model.uv[:, 0], upward, strict=True)}
    corners = [(False, False), (True, False), (True, True), (False, True)]
    named = re.findall(r"(\d)/(\d)", faces)
    assert found == {(*corners[int(v) - 1], *corners[int(vt) - 1]) for v, vt in named}


def test_glass(tmp_path: Path) -> None:
    path, green = put(tmp_path / "m.obj", BARE), []
    for alpha in ("d 0.5", ""):
        put(tmp_path / "m.mtl", f"newmtl a\nKd 1 0 0\n{alpha}\n")
        green.append(seen_at(front(path), 0, 0)[1])
    assert green[0] > green[1] + 80


def test_a_missing_library_and_a_missing_picture_are_noted(tmp_path: Path) -> None:
    path = put(tmp_path / "m.obj", BARE)
    assert "m.mtl" in load_model(path).notes[0]
    put(tmp_path / "m.mtl", "newmtl a\nmap_Kd /home/someone/t.png\n")
    assert "t.png" in load_model(path).notes[0]


def test_pictures_are_found_by_their_last_word(tmp_path: Path) -> None:
    put(tmp_path / "t.png", made.png(BLUE))
    put(tmp_path / "m.mtl", "newmtl a\nmap_Kd -s 1 1 1 C:\\models\\t.png\n")
    assert hue_at(front(put(tmp_path / "m.obj", DRESSED)), 0, 0) == "blue"


def test_a_wider_folder_may_be_allowed(tmp_path: Path) -> None:
    put(tmp_path / "t.png", made.png(BLUE))
    put(tmp_path / "models" / "m.mtl", "newmtl a\nmap_Kd ../t.png\n")
    path = put(tmp_path / "models" / "m.obj", DRESSED)
    with pytest.raises(MeshError, match="outside its folder"):
        load_model(path)
    assert load_model(path, within=tmp_path).materials[0].base_texture is not None


def test_colors_of_corners_and_of_faces(tmp_path: Path) -> None:
    corners = "".join(f"v {x} {y} 0 0 0 1\n" for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
    assert hue_at(front(put(tmp_path / "m.obj", corners + "f -4 -3 -2 -1\n")), 0, 0) == "blue"
    box = trimesh.creation.box()
    box.visual.face_colors = [200, 30, 30, 255]
    box.export(tmp_path / "box.ply")
    red, green, blue = seen_at(front(tmp_path / "box.ply"), 0.0, 0.0)
    assert red > 2 * green
    assert green == blue
