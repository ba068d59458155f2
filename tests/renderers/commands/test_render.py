"""`multifold render`: folders in, pictures or points out, nothing twice."""

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from multifold.errors import MultifoldError
from renderers import batch, cameras
from renderers.batch import RECORD_FILE, RenderRecord
from renderers.commands import render
from renderers.contact_sheets import CELL
from renderers.lanes import RenderLane
from renderers.mesh.load import load_model
from renderers.orders import MeshSource, RenderedMesh, ViewOrder
from renderers.points import SAMPLER, sample_points
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox
from tests.renderers import exhibit_files
from tests.renderers.glb import colored_square

QUICK = ("--rig", "ring2", "--size", 16, "--format", "png", "--workers", 1)


@pytest.fixture
def warm(workers: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start slowly, so most tests share them."""
    monkeypatch.setattr(batch, "Sandbox", lambda *_, **__: nullcontext(workers))


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    return render.run(parser.parse_args([str(word) for word in words]))


def square(folder: Path, name: str, *color: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return colored_square(*color).save(folder, name)


def test_a_folder_is_drawn_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes, out = tmp_path / "meshes", tmp_path / "out"
    square(meshes, "red.glb")
    blue = square(meshes / "deep", "blue.glb", 0, 0, 1, 1)
    (meshes / "bad.glb").write_bytes(b"junk")
    (meshes / "notes.txt").write_text("no mesh")
    words = (meshes, "--out", out, *QUICK, "--sheet")
    assert run(*words) == 0
    said = capsys.readouterr().out
    assert "2 rendered, 2 in all" in said
    assert "skipped bad.glb: this is not a GLB file" in said
    expected = SoftwareRenderer().render(load_model(blue), cameras.rig("ring2"), 16)
    for number in (0, 1):
        with Image.open(out / "deep" / "blue.glb" / f"{number:02}.png") as picture:
            assert (np.asarray(picture) == expected[number]).all()
    with Image.open(out / "sheet_000.png") as page:
        assert page.width == 12 * CELL
        assert page.getpixel((CELL // 2, 14 + CELL // 2)) == (0, 0, 255)

    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.png")}
    assert run(*words) == 0
    assert "0 rendered, 2 in all" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*.png")}

    (out / "red.glb" / "01.png").unlink()
    square(meshes / "deep", "blue.glb", 0, 1, 0, 1)
    assert run(*words) == 0
    assert "2 rendered, 2 in all" in capsys.readouterr().out


@pytest.mark.usefixtures("warm")
def test_pictures_may_lie_among_the_meshes_and_other_settings_draw_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    square(tmp_path, "red.glb")
    for rig, rendered in (("ring2", 1), ("ring2", 0), ("ring1", 1)):
        assert run(tmp_path, "--out", tmp_path / "views", *QUICK, "--rig", rig) == 0
        assert f"{rendered} rendered, 1 in all" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "views" / "red.glb").iterdir()] == ["00.png"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("gone", "--out", "out"), "no file or folder"),
        (("gone",), "where to"),
        (("--out", "out"), "what to render"),
        ((".", "--out", "out", "--rig", "round"), "no camera rig"),
        ((".", "--out", "out", "--size", 4), "pixels"),
        ((".", "--out", "out", "--points", 100, "--format", "png"), "points are no pictures"),
        ((".", "--out", "out", "--points", 100, "--sheet"), "points are no pictures"),
        ((".", "--out", "out", "--points", 1), "16 to 100,000 points"),
        ((".", "--out", "out", "--format", "ply"), "add --points"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MultifoldError, match=reason):
        run(*words)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("warm")
def test_a_transparent_background_is_kept(tmp_path: Path) -> None:
    mesh = square(tmp_path, "red.glb")
    for kind in ("png", "webp"):
        run(mesh, "--out", tmp_path / kind, *QUICK, "--background", "transparent", "--format", kind)
        with Image.open(tmp_path / kind / "red.glb" / f"00.{kind}") as picture:
            assert picture.mode == "RGBA"
            pixels = np.asarray(picture)
            assert pixels[0, 0, 3] == 0
            red, green, blue, alpha = pixels[8, 8]
            assert (red > 250, green < 6, blue < 6, alpha) == (True, True, True, 255)


@pytest.mark.usefixtures("warm")
def test_single_files_may_have_another_axis_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes, out = tmp_path / "meshes", tmp_path / "out"
    (meshes / "scans").mkdir(parents=True)
    for name in ("a.ply", "scans/b.ply", "scans/c.ply"):
        trimesh.creation.box((1, 4, 1)).export(meshes / name)  # tall along Y
    words = ("--up-of", "scans/*=z", "--up-of", "*/c.ply=y", "--rig", "ring1@0")
    assert run(meshes, "--out", out, *QUICK, *words) == 0
    said = capsys.readouterr().out
    assert "up is y in 1: a guess" in said
    assert "up is z in 1: as told" in said
    tall = {}
    for name in ("a.ply", "scans/b.ply", "scans/c.ply"):
        with Image.open(out / name / "00.png") as picture:
            rows, columns = np.nonzero(np.asarray(picture).min(axis=2) < 255)
        tall[name] = np.ptp(rows) > np.ptp(columns)
    assert tall == {"a.ply": True, "scans/b.ply": False, "scans/c.ply": True}
    assert json.loads((out / RECORD_FILE).read_text())["meshes"]["scans/b.ply"]["up"] == "z"
    assert run(meshes, "--out", out, *QUICK, "--rig", "ring1@0") == 0
    assert "2 rendered, 3 in all" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["*.ply", "*.ply=x", "=z", "z"])
def test_an_axis_that_is_none_is_refused(
    tmp_path: Path, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, "--out", tmp_path, "--up-of", word)
    assert "is not PATTERN=y" in capsys.readouterr().err


class Interrupted(Sandbox):
    """A sandbox that is interrupted by one mesh."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self.sandbox, self.workers, self.name = sandbox, sandbox.workers, name

    def draw(
        self, source: MeshSource, order: ViewOrder | None = None, lane: RenderLane = "any"
    ) -> RenderedMesh:
        if isinstance(source.mesh, Path) and source.mesh.name == self.name:
            raise KeyboardInterrupt
        return self.sandbox.draw(source, order, lane)


@pytest.mark.usefixtures("warm")
def test_what_was_drawn_before_an_interruption_is_kept(
    workers: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meshes, out = tmp_path / "meshes", tmp_path / "out"
    square(meshes, "a.glb")
    square(meshes, "b.glb")
    with monkeypatch.context() as patch:
        patch.setattr(batch, "Sandbox", lambda *_, **__: nullcontext(Interrupted(workers, "b.glb")))
        with pytest.raises(KeyboardInterrupt):
            run(meshes, "--out", out, *QUICK)
    assert list(RenderRecord.read(out).entries) == ["a.glb"]
    assert run(meshes, "--out", out, *QUICK) == 0
    assert "1 rendered, 2 in all" in capsys.readouterr().out


@pytest.mark.usefixtures("warm")
def test_long_lists_of_trouble_are_cut_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(25):
        (tmp_path / f"{number}.glb").write_bytes(b"junk")
    assert run(tmp_path, "--out", tmp_path / "out", *QUICK) == 1
    said = capsys.readouterr().out
    assert said.count("skipped") == 20
    assert "and 5 more, in views.json" in said
    assert len(RenderRecord.read(tmp_path / "out").skipped) == 25


@pytest.mark.usefixtures("warm")
def test_meshes_of_a_folder_may_share_what_lies_in_it(tmp_path: Path) -> None:
    mesh = exhibit_files.obj(tmp_path)
    (tmp_path / "textures").mkdir()
    (tmp_path / "meshes").mkdir()
    (tmp_path / "ball.png").rename(tmp_path / "textures" / "ball.png")
    (tmp_path / "meshes" / "ball.mtl").write_text("newmtl ball\nKd 1 1 1\nmap_Kd ../textures/ball.png\n")
    mesh.rename(tmp_path / "meshes" / "ball.obj")
    whole, alone = tmp_path / "whole", tmp_path / "alone"
    assert run(tmp_path, "--out", whole, *QUICK) == 0
    run(tmp_path / "meshes", "--out", alone, *QUICK)
    assert not RenderRecord.read(whole).entries["meshes/ball.obj"].notes
    assert "outside its folder" in RenderRecord.read(alone).skipped["ball.obj"]


@pytest.mark.usefixtures("warm")
def test_numpy_means_numba(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mesh = square(tmp_path, "red.glb")
    assert run(mesh, "--out", tmp_path / "out", *QUICK, "--engine", "numpy") == 0
    assert "--engine numpy means numba" in capsys.readouterr().err
    assert run(mesh, "--out", tmp_path / "out", *QUICK) == 0
    assert "0 rendered, 1 in all" in capsys.readouterr().out


@pytest.mark.usefixtures("warm")
def test_the_command_writes_points_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes, out = tmp_path / "meshes", tmp_path / "out"
    (meshes / "deep").mkdir(parents=True)
    trimesh.creation.box().export(meshes / "deep" / "box.stl")
    (meshes / "bad.glb").write_bytes(b"junk")
    words = (meshes, "--out", out, "--points", 100, "--workers", 1)
    assert run(*words) == 0
    said = capsys.readouterr().out
    assert "100 points each" in said
    assert "1 sampled, 1 in all" in said
    assert "skipped bad.glb" in said
    expected = sample_points(load_model(meshes / "deep" / "box.stl"), 100)
    with np.load(out / "deep" / "box.stl.npz") as stored:
        assert (stored["positions"] == expected.positions).all()
        assert (stored["normals"] == expected.normals).all()
        assert (stored["colors"] == expected.colors).all()
    assert run(*words) == 0
    assert "0 sampled, 1 in all" in capsys.readouterr().out
    assert SAMPLER in (out / "views.json").read_text()

    assert run(*words, "--format", "ply", "--seed", 3) == 0
    assert not (out / "deep" / "box.stl.npz").exists()
    cloud: trimesh.PointCloud = trimesh.load(out / "deep" / "box.stl.ply")  # type: ignore[assignment]
    assert np.allclose(
        cloud.vertices, sample_points(load_model(meshes / "deep" / "box.stl"), 100, 3).positions
    )
    assert len(load_model(out / "deep" / "box.stl.ply").faces) == 800  # our reader draws it as a cloud
