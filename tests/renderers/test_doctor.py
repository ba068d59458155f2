"""The doctor: what works, what does not, and what draws something else."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from renderers import doctor
from renderers.engines import engine
from renderers.orders import MeshReport, RenderedMesh
from tests.renderers.test_engines import MISSING


def test_every_engine_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ENGINES", (engine(), MISSING))
    first, missing = doctor.check_engines()
    assert (first.works, missing.works) == (True, False)
    assert first.chosen
    assert "numba (auto)" in str(first)
    assert "ms a view" in first.note
    assert "no engine is called 'missing'" in missing.note


class Painter:
    """Draws one grey."""

    def __init__(self, grey: int) -> None:
        self.grey = grey

    def draw(self, *_: object) -> RenderedMesh:
        return RenderedMesh(np.full((1, 8, 8, 3), self.grey, np.uint8), MeshReport("y", ""))


def test_wrong_pictures_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    grey_of = {"numba": 100, "near": 101, "far": 200}

    def paint(*_: object, engine: str, **__: object) -> AbstractContextManager[Painter]:
        return nullcontext(Painter(grey_of[engine]))

    monkeypatch.setattr(doctor, "Sandbox", paint)
    monkeypatch.setattr(doctor, "ENGINES", tuple(replace(engine(), name=name) for name in grey_of))
    checks = {check.engine.name: check for check in doctor.check_engines()}
    assert {name: check.works for name, check in checks.items()} == {
        "numba": True,
        "near": True,
        "far": False,
    }
    assert "1.00 of 255 off on average" in checks["near"].note
