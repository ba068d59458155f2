"""Engines by name: which is chosen, and what a missing one says."""

from pathlib import Path

import pytest
import trimesh

from renderers import engines
from renderers.contracts import RenderEngineError, Renderer
from renderers.engines import ENGINES, RenderEngine, engine
from renderers.orders import MeshSource, ViewOrder
from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE

MISSING = RenderEngine(
    "missing", "an engine whose package is not there", "none-1", "renderers.nowhere:Nothing"
)


def test_names_are_told_when_one_is_wrong() -> None:
    with pytest.raises(RenderEngineError, match=r"'blender'.*auto, numba, egl, osmesa"):
        engine("blender")
    with pytest.raises(RenderEngineError, match="no engine"):
        Sandbox(engine="blender")


def test_auto_and_numpy_are_the_software_renderer() -> None:
    assert engine().name == engine("auto").name == engine("numpy").name == "numba"


def test_the_table_knows_the_stamps() -> None:
    renderer = engine().open()
    assert isinstance(renderer, Renderer)
    assert f"{renderer.name}-{renderer.version}" == engine().pixels
    assert len({one.name for one in ENGINES}) == len(ENGINES)


def test_an_engine_that_fails_here_is_not_the_fault_of_the_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimesh.creation.box().export(tmp_path / "box.ply")
    monkeypatch.setattr(engines, "engine", lambda _: MISSING)  # which the workers don't know
    with Sandbox(1, seconds=PATIENCE) as sandbox:
        for _ in range(2):
            with pytest.raises(RenderEngineError, match="no engine is called 'missing'"):
                list(sandbox.draw_many(map(MeshSource, [tmp_path / "box.ply"]), ViewOrder("ring1", 16)))
