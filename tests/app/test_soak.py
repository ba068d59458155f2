"""The soak: what it calls growth, and a short one of a real service."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.encoding.observations import open_drawing_encoder
from app.settings import Settings
from benches.service import soak
from benches.service.running_service import run_service
from benches.service.sample_collection import fill_collection
from benches.service.soak import SoakLog, SoakSample, WrongAnswerError

CALM = SoakSample(memory=100 << 20, files=30, threads=12)


def test_what_rises_after_the_warm_up_has_grown() -> None:
    cold = SoakSample(memory=50 << 20, files=20, threads=8)
    assert soak.find_growth([cold, cold, *[CALM] * 8]) == []
    assert soak.find_growth([CALM] * 6 + [replace(CALM, files=33)] * 4) == []
    (told,) = soak.find_growth([CALM] * 6 + [replace(CALM, memory=120 << 20)] * 4)
    assert told.startswith("memory grew from 104,857,600")
    assert len(soak.find_growth([CALM] * 6 + [replace(CALM, files=60, threads=40)] * 4)) == 2


def test_wrong_answers_are_errors() -> None:
    def wrong() -> None:
        raise WrongAnswerError("9 hits")

    met = SoakLog()
    met.timed(wrong, writes=True)
    met.timed(lambda: None, writes=False)
    assert (met.answers, met.writes, met.errors) == (2, 1, ["WrongAnswerError: 9 hits"])
    assert met.slow() > 0 == met.slow()


@pytest.mark.slow
def test_a_short_soak_meets_no_error(tmp_path: Path, bundle: Path) -> None:
    settings = Settings(data=tmp_path, bundle=bundle, threads=1)
    fill_collection(tmp_path, open_drawing_encoder(settings.bundle, settings.threads), soak.ITEMS, soak.VIEWS)
    with run_service(settings, MULTIFOLD_CACHE="64") as service:
        met, samples = soak.run_soak(service, 10.0, readers=2, writers=2)
    assert met.errors == []
    assert met.answers > met.writes > 0
    assert len(samples) == soak.SPANS
