"""Items, vectors and mixes as queries; filters, pages, thresholds; several searches at once."""

from typing import Any

import httpx
import numpy as np
import pytest

from tests.app.house import BOXES, House, png
from tests.app.test_bad_input import refused, uri


def hits(shop: House, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (any JSON)
    response = shop.search(**asked)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["hits"]
    return found


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [hit["id"] for hit in found]


def vector(shop: House, text: str) -> list[float]:
    encoder = shop.service.encoder
    numbers: list[float] = encoder.vectors(encoder.texts([text]).features)[0].tolist()
    return numbers


@pytest.mark.parametrize("target", ["shape", "image", "text", "any"])
def test_an_item_finds_itself_first(shop: House, target: str) -> None:
    for colour in BOXES:
        assert ids(hits(shop, id=f"{colour}-box", target=target))[0] == f"{colour}-box"


def test_the_side_of_an_item_can_be_chosen(shop: House) -> None:
    by_text = hits(shop, id="red-box", side="text", target="shape")[0]["score"]
    encoder, item = shop.service.encoder, shop.service.collection.get("red-box")
    assert item is not None
    features = np.stack([seen.feature for seen in item.observations if seen.kind == "caption"])
    given = encoder.vectors(features.mean(0, keepdims=True))[0].tolist()
    assert hits(shop, vector=given)[0]["score"] == pytest.approx(by_text, abs=1e-5)


def test_a_vector_finds_what_its_text_finds(shop: House) -> None:
    by_text, by_vector = hits(shop, text="a blue box"), hits(shop, vector=vector(shop, "a blue box"))
    assert ids(by_vector) == ids(by_text)
    assert [hit["score"] for hit in by_vector] == pytest.approx([hit["score"] for hit in by_text], abs=1e-5)


def test_the_score_of_a_mix_is_the_weighted_sum_of_scores(shop: House) -> None:
    parts: list[dict[str, Any]] = [
        {"text": "red", "weight": 1.5},
        {"image": uri(png("blue")), "weight": -0.5},
        {"id": "green-box"},
    ]
    weights = [1.5, -0.5, 1.0]
    alone = [
        {hit["id"]: hit["score"] for hit in hits(shop, **{k: v for k, v in part.items() if k != "weight"})}
        for part in parts
    ]
    for hit in hits(shop, mix=parts):
        expected = sum(w * scores[hit["id"]] for w, scores in zip(weights, alone, strict=True))
        assert hit["score"] == pytest.approx(expected, abs=1e-4)
        assert hit["confidence"] is None


def test_a_negative_weight_leads_away(shop: House) -> None:
    assert ids(hits(shop, mix=[{"text": "red", "weight": -1.0}]))[-1] == "red-box"


def test_pages_follow_each_other(shop: House) -> None:
    whole = ids(hits(shop, text="a red box"))
    pages = [ids(hits(shop, text="a red box", limit=1, offset=place)) for place in range(5)]
    assert [one for page in pages for one in page] == whole
    assert pages[4] == []


@pytest.mark.parametrize("target", ["shape", "any"])
def test_a_filter_lets_only_some_through(shop: House, target: str) -> None:
    wanted = {"or": [{"is": "blue"}, {"is": {"prefix": "gr"}}]}
    assert set(ids(hits(shop, text="red", filter=wanted, target=target))) == {"blue-box", "green-box"}
    assert hits(shop, text="red", filter={"is": "pink"}, target=target) == []
    assert len(hits(shop, text="red", filter={})) == len(BOXES)


def test_a_filter_in_a_form_is_json(shop: House) -> None:
    response = shop.client.post(
        "/v1/search", files={"image": ("a.png", png("red"))}, data={"filter": '{"is": "blue"}'}
    )
    assert ids(response.json()["hits"]) == ["blue-box"]


def test_exact_is_the_same_here(shop: House) -> None:
    assert hits(shop, text="red", exact=True) == hits(shop, text="red")


def test_a_threshold_cuts(shop: House) -> None:
    whole = hits(shop, text="a red box")
    edge = whole[1]["score"]
    assert hits(shop, text="a red box", min_score=edge) == whole[:2]
    assert hits(shop, text="a red box", min_score=1e9) == []


def test_any_names_the_side_that_was_found(shop: House) -> None:
    found = hits(shop, text="red thing", target="any")
    assert len(ids(found)) == len(set(ids(found))) == len(BOXES)
    assert found[0]["id"] == "red-box"
    assert {hit["modality"] for hit in found} <= {"text", "image", "shape"}


@pytest.mark.parametrize(
    ("asked", "status", "code", "reason"),
    [
        ({"text": "a", "min_confidence": 0.5}, 422, "no_calibration", "use 'min_score'"),
        ({"text": "a", "min_score": "NaN"}, 422, "bad_request", "min_score"),
        ({"text": "a", "offset": -1}, 422, "bad_request", "offset"),
        ({"text": "a", "offset": 10_001}, 422, "bad_request", "offset"),
        ({"text": "a", "filter": [1]}, 422, "bad_request", "filter"),
        ({"text": "a", "filter": {"is": {"like": "x"}}}, 422, "bad_filter", "operator"),
        ({"text": "a", "filter": {"is": None}}, 422, "bad_filter", "exists"),
        ({"text": "a", "filter": {"or": []}}, 422, "bad_filter", "list of filters"),
        ({"id": "nobody"}, 404, "not_found", "nobody"),
        ({"id": "\0"}, 404, "not_found", ""),
        ({"id": "red-box", "side": "smell"}, 422, "bad_request", "side"),
        ({"vector": [1.0]}, 422, "bad_vector", "16"),
        ({"vector": []}, 422, "bad_vector", "16"),
        ({"vector": ["x"] * 16}, 422, "bad_request", "vector"),
        ({"vector": [1e30] * 16}, 422, "bad_query", ""),
        ({"vector": [1e300] * 16}, 422, "bad_query", ""),
        ({"mix": []}, 422, "bad_request", "mix"),
        ({"mix": [{}]}, 422, "no_query", "exactly one"),
        ({"mix": [{"text": "a", "id": "b"}]}, 422, "several_queries", "text and id"),
        ({"mix": [{"text": "a"}], "text": "b"}, 422, "several_queries", "text and mix"),
        ({"mix": [{"text": "a", "weight": 0}]}, 422, "bad_query", "weights"),
        ({"mix": [{"text": "a", "weight": 1e9}]}, 422, "bad_request", "weight"),
        ({"mix": [{"text": "a"}] * 33}, 422, "bad_request", "mix"),
        ({"mix": [{"mix": [{"text": "a"}]}]}, 422, "bad_request", "mix"),
    ],
)
def test_what_makes_no_sense_is_refused(
    shop: House, asked: dict[str, Any], status: int, code: str, reason: str
) -> None:
    refused(shop.search(**asked), status, code, reason)


def test_a_damaged_filter_in_a_form_is_refused(shop: House) -> None:
    for raw in ("{", "[]", "[" * 90_000):
        response = shop.client.post("/v1/search", data={"filter": raw}, files={"text": (None, "red")})
        refused(response, 422, "bad_filter")


def test_a_side_that_an_item_has_not_is_said(shop: House) -> None:
    shop.client.put("/v1/items/words", files={"texts": (None, "white")})
    refused(shop.search(id="words", side="shape"), 422, "no_such_side", "no shape")
    assert ids(hits(shop, id="words", target="text"))[0] == "words"
    assert len(hits(shop, id="words", target="shape")) == len(BOXES)
    shop.client.delete("/v1/items/words")


class TestSimilar:
    """More like this."""

    def post(self, shop: House, name: str, **asked: Any) -> httpx.Response:  # noqa: ANN401 (any JSON)
        return shop.client.post(f"/v1/items/{name}/similar", json=asked)

    def test_an_item_is_not_like_itself(self, shop: House) -> None:
        found = self.post(shop, "red-box").json()
        assert set(ids(found["hits"])) == {f"{colour}-box" for colour in BOXES} - {"red-box"}
        assert ids(self.post(shop, "red-box", limit=1, offset=1).json()["hits"]) == ids(found["hits"])[1:2]
        assert self.post(shop, "red-box", filter={"is": "red"}).json()["hits"] == []

    def test_ids_may_hold_slashes(self, shop: House) -> None:
        shop.client.put("/v1/items/a%2Fb", files={"texts": (None, "red")})
        assert ids(self.post(shop, "a%2Fb", target="text").json()["hits"])[0] == "red-box"
        shop.client.delete("/v1/items/a%2Fb")

    def test_one_that_is_not_there_is_not_found(self, shop: House) -> None:
        refused(self.post(shop, "nobody"), 404, "not_found")
        refused(self.post(shop, "red-box", target="shape", min_confidence=0.1), 422, "no_calibration")


class TestBatch:
    """Several searches at once."""

    def test_each_is_answered_for_itself(self, shop: House) -> None:
        asked = [{"text": colour, "limit": 1} for colour in BOXES]
        wrong = [{"text": ""}, {"image": "data:image/png;base64,AAAA"}, {"nonsense": 1}, {"id": "nobody"}]
        response = shop.client.post("/v1/search/batch", json={"searches": [*asked, *wrong]})
        answers = response.json()["answers"]
        assert [ids(one["answer"]["hits"]) for one in answers[:4]] == [[f"{colour}-box"] for colour in BOXES]
        codes = [one["error"]["code"] for one in answers[4:]]
        assert codes == ["bad_text", "bad_image", "bad_request", "not_found"]
        assert all(one["answer"] is None for one in answers[4:])

    def test_too_many_are_refused(self, shop: House) -> None:
        response = shop.client.post("/v1/search/batch", json={"searches": [{"text": "a"}] * 257})
        refused(response, 422, "too_many", "256 searches")

    @pytest.mark.parametrize("body", [{}, {"searches": []}, {"searches": ["a"]}, []])
    def test_what_is_no_batch_is_refused(self, shop: House, body: object) -> None:
        refused(shop.client.post("/v1/search/batch", json=body), 422, "bad_request")
