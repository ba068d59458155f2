"""Engines by name: which is chosen, what a missing one says, and the doctor."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import trimesh

from renderers import doctor, engines
from renderers.contracts import RenderEngineError, Renderer, engine_stamp
from renderers.engines import ENGINES, RenderEngine, engine
from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE

MISSING = RenderEngine(
    "missing", "an engine whose package is not there", "none-1", "renderers.nowhere:Nothing"
)


def test_names_are_told_when_one_is_wrong() -> None:
    with pytest.raises(RenderEngineError, match=r"'blender'.*auto, numba, numpy, egl, osmesa"):
        engine("blender")
    with pytest.raises(RenderEngineError, match="no engine"):
        Sandbox(engine="blender")


@pytest.mark.parametrize(("there", "chosen"), [(True, "numba"), (False, "numpy")])
def test_auto_takes_numba_if_it_can(monkeypatch: pytest.MonkeyPatch, there: bool, chosen: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if there else None)
    assert engine().name == engine("auto").name == chosen


def test_auto_never_changes_the_pictures() -> None:
    assert engine("numba").pixels == engine("numpy").pixels


def test_the_table_knows_the_stamps() -> None:
    renderer = engine("numpy").open()
    assert isinstance(renderer, Renderer)
    assert engine_stamp(renderer) == engine("numpy").pixels
    assert len({one.name for one in ENGINES}) == len(ENGINES)


def test_an_engine_that_fails_here_is_not_the_fault_of_the_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimesh.creation.box().export(tmp_path / "box.ply")
    monkeypatch.setattr(engines, "engine", lambda _: MISSING)  # which the workers don't know
    with Sandbox(1, seconds=PATIENCE) as sandbox:
        for _ in range(2):
            with pytest.raises(RenderEngineError, match="no engine is called 'missing'"):
                list(sandbox.draw_many([tmp_path / "box.ply"], "ring1", 16))


def test_the_doctor_tries_every_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ENGINES", (MISSING, engine("numpy")))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    plain, missing = doctor.check_engines()
    assert (plain.works, missing.works) == (True, False)
    assert plain.chosen
    assert "numpy (auto)" in str(plain)
    assert "the same pixels" in plain.note
    assert "no engine is called 'missing'" in missing.note


def test_the_doctor_sees_wrong_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = engine("numpy")
    other = replace(numpy, name="other")
    drawn = doctor._draw

    def inverted(one: RenderEngine, crystal: Path) -> tuple[object, float]:
        views, seconds = drawn(numpy, crystal)
        return (255 - views if one.name == "other" else views), seconds

    monkeypatch.setattr(doctor, "ENGINES", (numpy, other))
    monkeypatch.setattr(doctor, "_draw", inverted)
    works = {finding.engine.name: finding.works for finding in doctor.check_engines()}
    assert works == {"numpy": True, "other": False}
