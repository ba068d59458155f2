"""Ten things of one's own, which the demo encoder has never seen: each is found by what was written of it."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from app.collections import evidence
from tests.app.browser import Page
from tests.app.house import House, encoded, house
from tests.waiting import until

BUNDLE = Path(__file__).parents[2] / "bundles" / "furniture"
THINGS = {
    "car": "a red toy car",
    "guitar": "acoustic guitar",
    "beach": "the beach at sunset",
    "pizza": "two pizzas on a plate",
    "mug": "my blue coffee mug",
    "bike": "a racing bicycle",
    "cat": "the neighbour's grey cat",
    "lamp": "desk lamp with a green shade",
    "bolt": "hex bolt KX-42/7b",
    "map": "an old map of the town",
}
QUERIES = {
    "a red toy car": "car",
    "guitars": "guitar",
    "beach": "beach",
    "pizza": "pizza",
    "blue mug": "mug",
    "bicycle": "bike",
    "grey cats": "cat",
    "green desk lamp": "lamp",
    "KX-42/7B": "bolt",
    "old map": "map",
}
WELL = {
    "a red toy car": True,
    '"red toy car"': True,
    '"car toy red"': False,  # all words are there, but no caption has them so
    '"red toy car" "grey cat"': False,  # no item has both
    "zxqv 77 kllp": False,
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Ten photos with a caption each, beside a few that have none."""
    random = np.random.default_rng(0)
    with house(tmp_path_factory.mktemp("own"), BUNDLE) as opened:
        for name, text in (*THINGS.items(), *((f"IMG_{n}", None) for n in range(4))):
            coarse = random.integers(0, 256, (6, 6, 3))
            photo = encoded(np.kron(coarse, np.ones((20, 20, 1), np.int64)).astype(np.uint8))
            data = {"texts": [text] if text else [], "payload": json.dumps({})}
            files = [("images", (f"{name}.png", photo, "image/png"))]
            answer = opened.client.put(f"/v1/items/{name}-1", data=data, files=files)
            assert answer.status_code == 200, answer.text
        yield opened


@pytest.mark.parametrize("fitted", [False, True])
def test_each_is_found_first_by_its_words_and_what_nothing_has_matches_nothing_well(
    own: House, fitted: bool
) -> None:
    if fitted:
        own.service.evidence.fit()
        told = own.client.get("/v1/info").json()["collection"]["evidence"]["text"]
        assert told["queries"] > 0
        assert told["weights"]["words"] > 0
    for text, name in QUERIES.items():
        hits = own.client.post("/v1/search", json={"text": text, "limit": 14}).json()["hits"]
        assert (hits[0]["id"], hits[0]["evidence"][0]["leg"]) == (f"{name}-1", "words"), text
        chances = [hit["confidence"] for hit in hits]
        assert chances == sorted(chances, reverse=True)
    for text, well in WELL.items():
        answer = own.client.post("/v1/search", json={"text": text}).json()
        assert answer["matches_well"] is well, text
        assert answer["hits"]  # what comes nearest is told all the same


def test_what_was_written_is_fitted_before_anybody_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "FIRST_FIT_ITEMS", 8)
    with house(tmp_path, BUNDLE) as opened:
        items = [{"id": name, "texts": [text]} for name, text in THINGS.items()]
        answer = opened.client.post("/v1/items", json={"items": items})
        assert answer.status_code == 200, answer.text
        until(lambda: opened.service.collection.evidence(), what="a model in the store")


def test_an_answer_with_an_error_is_as_short_as_it_may_be(own: House) -> None:
    asked = {"text": "a red toy car", "error": 0.4}
    own.service.evidence.fit()
    whole = own.client.post("/v1/search", json={"text": "a red toy car", "limit": 14}).json()
    cut = own.client.post("/v1/search", json=asked).json()
    assert (whole["here"], cut["here"]) == (None, True)
    assert (whole["error"], cut["error"]) == (None, 0.4)
    assert [hit["id"] for hit in cut["hits"]] == [hit["id"] for hit in whole["hits"]][: len(cut["hits"])]
    assert len(cut["hits"]) < len(whole["hits"])
    nothing = own.client.post("/v1/search", json=asked | {"text": '"car toy red"'}).json()
    assert (nothing["here"], nothing["hits"], nothing["next"], nothing["error"]) == (False, [], None, 0.4)
    assert 'multifold_answers_unlike_total{collection="main"}' in own.client.get("/metrics").text


def test_nothing_matches_well_where_nothing_is(tmp_path: Path) -> None:
    with house(tmp_path, BUNDLE) as opened:
        answer = opened.client.post("/v1/search", json={"text": "a red toy car"}).json()
        assert (answer["hits"], answer["matches_well"]) == ([], False)


def shows_first(at: Page, name: str) -> bool:
    return at.texts("#results .name")[:1] == [name]


@pytest.mark.browser
def test_the_page_finds_them_and_says_why(own: House, page: Page) -> None:
    at = Page(page.driver, own.url)
    at.open()
    for text, name in (("a red toy car", "a red toy car"), ("beach", "the beach at sunset")):
        at.type(text)
        at.wait(partial(shows_first, at, name))
        assert "caption" in at.texts("#results .words")[0]
    at.type("zxqv 77 kllp")
    at.wait(lambda: "Nothing matches well" in at.find("#message").text)
    assert at.found()
