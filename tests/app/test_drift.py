"""Known queries are asked again and again; how searches go is counted."""

from pathlib import Path

import pytest

from app.operations.probes import probe_collection
from app.operations.telemetry import rate_match
from multifold.bundle import canary
from multifold.bundle.bundle import BundleError
from multifold.types import Hit, Observation
from tests.app.house import BOXES, House, house
from tests.index.things import feature
from tests.waiting import until


def test_known_captions_find_their_items(shop: House) -> None:
    found = probe_collection(shop.service)
    assert (found.sound, found.queries, found.hits) == (True, len(BOXES), len(BOXES))


def test_an_encoder_that_answers_otherwise_is_told(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(_: object) -> None:
        raise BundleError("it differs")

    monkeypatch.setattr(canary, "check", differ)
    assert not probe_collection(shop.service).sound


def test_it_is_looked_at_again_and_again(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, probe_every=0.1) as at:
        at.put("red-box", "red")
        for wanted in ("recall", "sound"):
            line = f'multifold_probe_{wanted}{{collection="main"}} 1'
            until(lambda line=line: line in at.client.get("/metrics").text, what=line)  # type: ignore[misc]


def hit(confidence: float | None) -> Hit:
    return Hit("a", 1.0, "shape", Observation("view", 0, feature(1)), {}, confidence)


@pytest.mark.parametrize(
    ("confidences", "how"),
    [
        ([], "nothing"),
        ([None], "unknown"),
        ([0.1, 0.4], "poorly"),
        ([0.1, 0.5], "well"),
        ([None, 0.9], "well"),
    ],
)
def test_searches_are_told_apart(confidences: list[float | None], how: str) -> None:
    assert rate_match([hit(one) for one in confidences]) == how


def test_searches_are_counted(shop: House) -> None:
    name = 'multifold_answers_total{collection="main",match="unknown"} '

    def counted() -> int:
        lines = shop.client.get("/metrics").text.splitlines()
        return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = counted()
    shop.best(text="red")
    assert counted() == before + 1
