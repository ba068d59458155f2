"""`multifold render`: folders in, pictures out, nothing twice."""

import argparse
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.errors import MultifoldError
from renderers import cameras
from renderers.commands import render
from renderers.content import content_hash
from renderers.mesh import load_model
from renderers.software import SoftwareRenderer
from tests.renderers.glb import Glb, unlit


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    return render.run(parser.parse_args([str(word) for word in words]))


def square(folder: Path, name: str, color: tuple[float, ...] = (1, 0, 0, 1)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    glb = Glb()
    glb.square(unlit(glb, color))
    return glb.save(folder, name)


def test_a_folder_is_drawn_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes, out = tmp_path / "meshes", tmp_path / "out"
    square(meshes, "red.glb")
    blue = square(meshes / "deep", "blue.glb", (0, 0, 1, 1))
    (meshes / "bad.glb").write_bytes(b"junk")
    (meshes / "notes.txt").write_text("no mesh")
    words = (
        meshes,
        "--out",
        out,
        "--rig",
        "ring2",
        "--size",
        16,
        "--format",
        "png",
        "--workers",
        1,
        "--sheet",
    )
    assert run(*words) == 0
    said = capsys.readouterr().out
    assert "2 rendered, 2 in all" in said
    assert "skipped bad.glb: this is not a GLB file" in said
    expected = SoftwareRenderer().render(load_model(blue), cameras.rig("ring2"), 16)
    for number in (0, 1):
        with Image.open(out / "deep" / "blue.glb" / f"{number:02}.png") as picture:
            assert (np.asarray(picture) == expected[number]).all()
    with Image.open(out / "sheet_000.png") as page:
        assert page.width == 32

    assert run(*words) == 0
    assert "0 rendered, 2 in all" in capsys.readouterr().out
    (out / "red.glb" / "01.png").unlink()
    square(meshes / "deep", "blue.glb", (0, 1, 0, 1))
    assert run(*words) == 0
    assert "2 rendered, 2 in all" in capsys.readouterr().out


def test_nothing_but_bad_files_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "bad.glb").write_bytes(b"junk")
    assert run(tmp_path / "bad.glb", "--out", tmp_path / "out", "--workers", 1) == 1


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match="no file or folder"):
        run(tmp_path / "gone", "--out", tmp_path / "out")


def test_the_content_hash_minds_the_files_that_a_mesh_names(tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_text("mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n")
    before = content_hash(tmp_path / "m.obj")
    (tmp_path / "m.mtl").write_text("newmtl a\nmap_Kd -s 1 1 1 t.png\n")
    named = content_hash(tmp_path / "m.obj")
    (tmp_path / "t.png").write_bytes(b"one")
    textured = content_hash(tmp_path / "m.obj")
    (tmp_path / "t.png").write_bytes(b"two")
    changed = content_hash(tmp_path / "m.obj")
    assert len({before, named, textured, changed}) == 4
    (tmp_path / "other.png").write_bytes(b"beside, but not named")
    assert content_hash(tmp_path / "m.obj") == changed


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "views.json").write_text("[]")
    square(tmp_path, "red.glb")
    with pytest.raises(MultifoldError, match=r"views\.json is damaged"):
        run(tmp_path / "red.glb", "--out", tmp_path)
