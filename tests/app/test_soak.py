"""The soak: what it calls growth, and a short one of a real service."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.benches import soak
from app.benches.served import served
from app.benches.soak import Met, Sample, WrongAnswerError
from app.benches.things import fill
from app.observer import encoder_of
from app.settings import Settings

CALM = Sample(memory=100 << 20, files=30, threads=12)


def test_what_rises_after_the_warm_up_has_grown() -> None:
    cold = Sample(memory=50 << 20, files=20, threads=8)
    assert soak.growth([cold, cold, *[CALM] * 8]) == []
    assert soak.growth([CALM] * 6 + [replace(CALM, files=33)] * 4) == []
    (told,) = soak.growth([CALM] * 6 + [replace(CALM, memory=120 << 20)] * 4)
    assert told.startswith("memory grew from 104,857,600")
    assert len(soak.growth([CALM] * 6 + [replace(CALM, files=60, threads=40)] * 4)) == 2


def test_wrong_answers_are_errors() -> None:
    def wrong() -> None:
        raise WrongAnswerError("9 hits")

    met = Met()
    met.timed(wrong, writes=True)
    met.timed(lambda: None, writes=False)
    assert (met.answers, met.writes, met.errors) == (2, 1, ["WrongAnswerError: 9 hits"])
    assert met.slow() > 0 == met.slow()


@pytest.mark.slow
def test_a_short_soak_meets_no_error(tmp_path: Path, bundle: Path) -> None:
    settings = Settings(data=tmp_path, bundle=bundle, threads=1)
    fill(tmp_path, encoder_of(settings), soak.ITEMS, soak.VIEWS)
    with served(settings, MULTIFOLD_CACHE="64") as service:
        met, samples = soak.soak(service, 30.0, readers=2, writers=2)
    assert met.errors == []
    assert met.answers > met.writes > 0
    assert len(samples) == soak.SPANS
