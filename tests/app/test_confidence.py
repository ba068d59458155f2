"""Confidence where a bundle is calibrated: in hits, as a threshold; and none where it is not known."""

from collections.abc import Iterator
from math import log
from typing import Any

import pytest

from app.collections import confidence
from multifold.bundle import calibration
from multifold.bundle.calibration import SHARES, CalibrationCurve
from tests import tiny
from tests.app import browser
from tests.app.answers import refused
from tests.app.browser import Page, browsing
from tests.app.house import BOXES, House, house

STRANGERS = tuple(score / 20 for score in range(len(SHARES)))
PAIRS = {
    "text/shape/mean": CalibrationCurve(20.0, -18.0, 4, 100, STRANGERS),
    "text/text/mean": CalibrationCurve(10.0, -12.0, 4, 100, STRANGERS),
    "image/shape/mean": CalibrationCurve(15.0, -14.0, 8, 100, STRANGERS),
}


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny.build(folder, calibration=calibration.describe(PAIRS))
    with house(tmp_path_factory.mktemp("sure"), folder) as opened:
        for colour in BOXES:
            assert opened.put(f"{colour}-box", colour).status_code == 200
        yield opened


def hits(shop: House, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (any JSON)
    response = shop.search(**asked)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["hits"]
    return found


def test_a_hit_has_the_confidence_of_its_score(sure: House) -> None:
    for hit in hits(sure, text="a red box"):
        odds = log(hit["confidence"] / (1 - hit["confidence"]))
        assert odds == pytest.approx(20 * hit["score"] - 18, abs=1e-3)


def test_a_smaller_gallery_makes_surer(sure: House) -> None:
    (whole, *_) = hits(sure, text="a red box")
    (narrow,) = hits(sure, text="a red box", filter={"is": "red"})
    assert narrow["score"] == whole["score"]
    told = (log(one["confidence"] / (1 - one["confidence"])) for one in (narrow, whole))
    assert next(told) - next(told) == pytest.approx(log(4), abs=1e-3)


def test_a_threshold_cuts_by_confidence(sure: House) -> None:
    found = hits(sure, text="a red box")
    edge = found[1]["confidence"]
    assert hits(sure, text="a red box", min_confidence=edge) == found[:2]
    assert hits(sure, text="a red box", min_confidence=1) == []
    refused(sure.search(text="a", min_confidence=1.5), 422, "bad_request")


def test_sides_are_merged_by_confidence_where_all_have_one(sure: House) -> None:
    """Nothing is known of photos: with them ranks are fused, as without a calibration."""
    fused = hits(sure, text="a red box", target="any", limit=1)
    assert fused[0]["id"] == "red-box"
    for name, texts in (("said", ["a red chair", "legs"]), ("told", ["a red ball"])):
        files = [("texts", (None, text)) for text in texts] + [("payload", (None, '{"new": true}'))]
        sure.client.put(f"/v1/items/{name}", files=files)
    try:
        found = hits(sure, text="a red chair", target="any", filter={"new": True})
        assert [hit["modality"] for hit in found] == ["text", "text"]
        assert 1 > found[0]["confidence"] >= found[1]["confidence"] > 0
    finally:
        sure.client.post("/v1/items/delete", json={"ids": ["said", "told"]})


@pytest.mark.parametrize(
    "asked",
    [
        {"id": "red-box"},
        {"vector": [0.25] * 16},
        {"mix": [{"text": "red"}, {"text": "box"}]},
        {"mix": [{"text": "red", "weight": -1}]},
        {"text": "red", "pool": "max"},
        {"text": "red", "target": "image"},
    ],
)
def test_what_was_never_calibrated_has_no_confidence(sure: House, asked: dict[str, Any]) -> None:
    assert {hit["confidence"] for hit in hits(sure, **asked)} == {None}
    refused(sure.search(**asked, min_confidence=0.1), 422, "no_calibration", "use 'min_score'")


def test_a_mix_of_one_is_that_one(sure: House) -> None:
    assert hits(sure, mix=[{"text": "red"}]) == hits(sure, text="red")


def test_the_service_says_what_it_knows(sure: House, shop: House) -> None:
    assert sure.client.get("/v1/info").json()["bundle"]["calibrated"] == sorted(PAIRS)
    assert shop.client.get("/v1/info").json()["bundle"]["calibrated"] == []
    assert confidence.calibration_of({}, "text", "mean") is None


@pytest.fixture(scope="module")
def strict(sure: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(sure.url, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


class TestPage:
    """Strictness on the search page."""

    pytestmark = browser.marks

    def test_one_can_be_strict_where_confidence_is_known(self, strict: Page) -> None:
        strict.open("/?q=a+red+box")
        strict.wait(lambda: len(strict.found()) == 4 and strict.find("#strict").is_displayed())
        assert strict.find("#results .score").text.endswith("%")
        strict.shot("strict")
        slide = "const s = document.querySelector('#sure'); s.value = arguments[0];"
        slide += "for (const kind of ['input', 'change']) s.dispatchEvent(new Event(kind, {bubbles: true}))"
        strict.script(slide, 0.5)
        strict.wait(lambda: strict.found() == ["red-box"])
        assert strict.driver.current_url.endswith("/?q=a+red+box&sure=0.5")
        assert strict.find("#strictness").text == "at least 50 % sure"
        strict.open("/?q=legs&sure=0.95")
        strict.wait(lambda: strict.find("#message").text.startswith("Nothing matches well"))
        strict.shot("nothing-matches-well")

    def test_a_mix_has_no_strictness(self, strict: Page) -> None:
        strict.open("/?q=red&q=box")
        strict.wait(lambda: len(strict.found()) == 4)
        assert not strict.find("#strict").is_displayed()
