"""A mesh of any format as GLB for viewers: drawn again, it looks the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image

from renderers import cameras
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh import glb
from renderers.mesh.load import load_model
from renderers.orders import MeshSource
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox
from tests.renderers.glb import colored_square, unlit

SIZE = 48


def drawn(path: Path) -> np.ndarray:
    """Its six views."""
    return SoftwareRenderer().render(load_model(path), cameras.rig("ring6"), SIZE).astype(float)


def again(path: Path) -> Path:
    """The GLB file of a mesh."""
    other = path.with_name("again.glb")
    other.write_bytes(glb.encode_glb(load_model(path)))
    return other


def two_squares(folder: Path) -> Path:
    made = colored_square()
    made.square(unlit(made, (0, 1, 0, 0.5), alphaMode="BLEND"), z=0.5, scale=0.5)
    return made.save(folder)


def colored_stl(folder: Path) -> Path:
    path = folder / "cone.stl"
    trimesh.creation.cone(1, 2).export(path)
    return path


def colored_ply(folder: Path) -> Path:
    mesh = trimesh.creation.icosphere(subdivisions=2)
    colors = np.random.default_rng(1).integers(0, 255, (len(mesh.vertices), 4))
    mesh.visual.vertex_colors = colors | [0, 0, 0, 255]
    path = folder / "ball.ply"
    mesh.export(path)
    return path


def textured(folder: Path) -> Path:
    mesh = trimesh.creation.box()
    pixels = np.random.default_rng(2).integers(0, 255, (4, 4, 3), np.uint8).repeat(16, 0).repeat(16, 1)
    uv = np.asarray(mesh.vertices)[:, :2] + 0.5
    mesh.visual = trimesh.visual.TextureVisuals(uv=uv, image=Image.fromarray(pixels))  # type: ignore[no-untyped-call]
    path = folder / "box.glb"
    mesh.export(path)
    return path


@pytest.mark.parametrize("make", [two_squares, colored_stl, colored_ply, textured])
def test_it_looks_as_the_original(make: object, tmp_path: Path) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    views = drawn(path)
    assert np.abs(views - drawn(again(path))).mean() < 1
    assert views.std() > 10  # there is something to see


def test_corners_that_are_alike_are_one_vertex(tmp_path: Path) -> None:
    box = trimesh.creation.box()
    box.export(tmp_path / "box.ply")
    mesh: Any = trimesh.load(again(tmp_path / "box.ply"), force="mesh", process=False)
    assert len(mesh.faces) == 12
    assert len(mesh.vertices) == 24  # four corners of each side


def test_a_worker_makes_the_same_bytes(workers: Sandbox, tmp_path: Path) -> None:
    path = colored_stl(tmp_path)
    ours = again(path).read_bytes()
    for source in (MeshSource(path.read_bytes(), ".stl"), MeshSource(path)):
        assert workers.glb(source) == ours
    with pytest.raises(MeshError, match="not a GLB file"):
        workers.glb(MeshSource(b"nothing of the kind", ".glb"))


def test_what_is_too_much_for_a_browser_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glb, "GLB_LIMITS", MeshLimits(faces=10))
    with pytest.raises(MeshError, match="triangles; at most 10"):
        glb.encode_glb(load_model(colored_stl(tmp_path)))
