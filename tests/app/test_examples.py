"""Examples and diversity over the wire: they order a search anew, as JSON, as a form, and by the client."""

import json
from typing import Any

import pytest

from multifold.client import Client, Examples, Search, ServiceError
from tests.app.house import House, png


def found(shop: House, **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    response = shop.search(**{"target": "item"} | asked)
    assert response.status_code == 200, response.text
    return [hit["id"] for hit in response.json()["hits"]]


def test_good_hits_stay_first_and_bad_ones_go_last(shop: House) -> None:
    plain = found(shop, text="a red box")
    assert plain[0] == "red-box"
    good, bad = plain[-1], plain[0]
    judged = found(shop, text="a red box", examples={"good": [good], "bad": [bad]})
    assert (judged[0], judged[-1]) == (good, bad)
    assert sorted(judged) == sorted(plain)


def test_the_answer_says_what_examples_added(shop: House) -> None:
    body = {"target": "item", "text": "a red box", "examples": {"good": ["blue-box"]}}
    hits = shop.search(**body).json()["hits"]
    legs = {leg["leg"]: leg["value"] for leg in hits[0]["evidence"]}
    assert legs["examples"] > 5
    assert hits[0]["score"] == pytest.approx(sum(legs.values()), abs=1e-3)
    assert [hit["confidence"] for hit in hits] == sorted((h["confidence"] for h in hits), reverse=True)


def test_pages_facets_and_similar_items_know_examples(shop: House) -> None:
    asked = {"text": "a red box", "examples": {"bad": ["red-box"]}, "diversity": 0.5}
    whole = found(shop, **asked)
    assert [name for n in range(4) for name in found(shop, **asked, limit=1, offset=n)] == whole
    assert whole[-1] == "red-box"
    query = {"target": "item", **asked}
    facets = shop.client.post("/v1/facets", json={"keys": ["is"], "query": query, "best": 3}).json()
    assert "red" not in [one["value"] for one in facets["facets"]["is"]]
    like = shop.client.post("/v1/items/red-box/similar", json={"examples": {"good": ["blue-box"]}})
    assert like.json()["hits"][0]["id"] == "blue-box"


def test_a_form_has_examples_as_json(shop: House) -> None:
    data = {"examples": json.dumps({"good": ["blue-box"]}), "diversity": "0.25"}
    files = {"image": ("red.png", png("red"))}
    response = shop.client.post("/v1/search", files=files, data=data)
    assert response.json()["hits"][0]["id"] == "blue-box"
    response = shop.client.post("/v1/search", files=files, data={"examples": "no JSON"})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "bad_examples")


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"examples": {"good": ["nobody"]}}, 404, "not_found"),
        ({"examples": {"bad": ["red-box", "no\u0000body"]}}, 404, "not_found"),
        ({"examples": {"good": ["red-box"], "bad": ["red-box"]}}, 422, "bad_examples"),
        ({"examples": {"good": ["red-box"]}, "target": "shape"}, 422, "needs_evidence"),
        ({"examples": {"good": ["red-box"]}, "lexical": "only"}, 422, "needs_evidence"),
        ({"diversity": 0.5, "target": "any"}, 422, "needs_evidence"),
        ({"diversity": 1.5}, 422, "bad_request"),
        ({"examples": {"good": "red-box"}}, 422, "bad_request"),
        ({"examples": {"better": ["red-box"]}}, 422, "bad_request"),
        ({"examples": {"good": [f"n{n}" for n in range(40)]}}, 422, "bad_request"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(
    shop: House, asked: dict[str, Any], status: int, code: str
) -> None:
    response = shop.search(**{"text": "a red box", "target": "item"} | asked)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text


def test_empty_examples_change_nothing(shop: House) -> None:
    assert found(shop, text="a red box", examples={}, diversity=0) == found(shop, text="a red box")
    assert shop.search(text="red", target="shape", examples={}, diversity=0).status_code == 200


def test_one_refused_example_leaves_other_searches_alone(shop: House) -> None:
    searches = [{"text": "red", "examples": {"good": ["nobody"]}}, {"text": "red"}]
    first, second = shop.client.post("/v1/search/batch", json={"searches": searches}).json()["answers"]
    assert first["error"]["code"] == "not_found"
    assert second["answer"]["hits"]


def test_the_client_sends_them(shop: House) -> None:
    with Client(shop.url) as client:
        judged = client.search(text="a red box", examples=Examples(good=["blue-box"], bad=["red-box"]))
        assert (judged.hits[0].id, judged.hits[-1].id) == ("blue-box", "red-box")
        by_picture = client.search(image=png("red"), examples=Examples(["green-box"]), diversity=0.5)
        assert by_picture.hits[0].id == "green-box"
        (many,) = client.search_many([Search(text="red", examples=Examples(bad=["red-box"]))])
        assert many.hits[-1].id == "red-box"  # type: ignore[union-attr]
        with pytest.raises(ServiceError) as caught:
            client.search(text="red", examples=Examples(["nobody"]))
        assert caught.value.code == "not_found"
