"""POST /v1/traverse and /v1/explain: what is met on the way to the root, and why something matched."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multifold.bundle.bundle import GeometrySpec
from multifold.client import Client, MixPart
from tests import tiny
from tests.app.answers import uri
from tests.app.house import House, house, png


def ask(shop: House, resource: str, **body: Any) -> Any:  # noqa: ANN401 (JSON)
    response = shop.client.post(f"/v1/{resource}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(
    "asked", [{"text": "a red box"}, {"image": uri(png("red"))}, {"id": "red-box", "side": "shape"}]
)
def test_one_walks_from_anything_to_the_root(shop: House, asked: dict[str, str]) -> None:
    found = ask(shop, "traverse", steps=20, **asked)
    assert (found["root"], found["cones"], found["steps"]) == ("mean", False, 20)
    (path,) = found["paths"]
    positions = [met["position"] for met in path["met"]]
    assert path["k"] is None
    assert positions == sorted(positions)
    assert path["met"][0]["id"] == "red-box"
    assert positions[0] == 0


def test_a_bundle_without_captions_has_none_to_meet(shop: House) -> None:
    assert ask(shop, "traverse", text="red", captions="bundle")["paths"] == [{"k": None, "met": []}]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": "red", "widths": [0.3]}, 422, "no_cones"),
        ({"vector": [1.0] * 16}, 422, "no_feature"),
        ({"id": "nobody"}, 404, "not_found"),
    ],
)
def test_walks_that_cannot_be_made_say_why(shop: House, body: dict[str, Any], status: int, code: str) -> None:
    response = shop.client.post("/v1/traverse", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_every_observation_has_its_score(shop: House) -> None:
    found = ask(shop, "explain", text="a red box", item="red-box")
    scores = [one["score"] for one in found["observations"]]
    assert len(scores) == 2 + 1 + 6
    assert scores == sorted(scores, reverse=True)
    assert set(found["sides"]) == {"text", "image", "shape"}
    assert found["explained"]["observation"] == found["observations"][0]
    hit = next(hit for hit in shop.search(text="a red box").json()["hits"] if hit["id"] == "red-box")
    assert found["sides"]["shape"] == pytest.approx(hit["score"], abs=1e-5)


def test_the_red_of_a_photo_and_the_word_red_made_the_match(shop: House) -> None:
    found = ask(shop, "explain", text="a red box", item="red-box", kind="photo")
    heat = found["explained"]["heat_map"]
    assert (heat["method"], heat["cut"]) == ("occlusion", False)
    grid = np.array(heat["grid"])
    assert grid.shape == (7, 7)
    assert grid[2:5, 2:5].min() > 0 == np.abs(grid[0]).max()
    assert found["explained"]["words"] is None
    shares = {one["text"]: one["share"] for one in found["query"]["words"]["words"]}
    assert max(shares, key=lambda word: shares[word]) == "red"
    assert found["query"]["heat_map"] is None


def test_a_picture_that_asks_and_a_caption_that_answers(shop: House) -> None:
    found = ask(shop, "explain", image=uri(png("blue")), item="blue-box", kind="caption", index=1)
    assert found["explained"]["observation"]["text"] == "blue thing"
    assert [one["text"] for one in found["explained"]["words"]["words"]] == ["blue", "thing"]
    assert found["query"]["heat_map"]["method"] == "occlusion"


def test_each_pair_of_tokens_has_its_share_and_its_maps(tmp_path: Path) -> None:
    tokens = GeometrySpec("oblique_multi", tiny.FEATURE, tiny.FEATURE, "ip", params={"m": 4})
    with house(tmp_path / "data", tiny.build(tmp_path / "tokens", geometry=tokens).folder) as shop:
        shop.put("red-box", "red")
        asked = {"text": "a red box", "item": "red-box", "kind": "photo"}
        whole = ask(shop, "explain", **asked)["explained"]
        assert sum(whole["tokens"]) == pytest.approx(whole["observation"]["score"], abs=1e-5)
        grids = [
            np.array(ask(shop, "explain", token=token, **asked)["explained"]["heat_map"]["grid"])
            for token in range(4)
        ]
        np.testing.assert_allclose(sum(grids), whole["heat_map"]["grid"], atol=1e-5)
        refused = shop.client.post("/v1/explain", json={**asked, "token": 4})
        assert refused.status_code == 422
        assert "4 are compared pair by pair" in refused.json()["error"]["message"]
        with Client(shop.url) as client:
            why = client.explain(MixPart(text="a red box"), "red-box", kind="photo", token=0)
            assert why.explained.tokens == pytest.approx(whole["tokens"])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": "red", "item": "nobody"}, 404, "not_found"),
        ({"text": "red", "item": "red-box", "kind": "view", "index": 9}, 404, "not_found"),
        ({"text": "red", "item": "red-box", "index": 0}, 422, "bad_query"),
        ({"text": "red", "item": "red-box", "method": "grad-cam"}, 422, "refused"),
        ({"text": "red", "item": "red-box", "token": 1}, 422, "refused"),
    ],
)
def test_what_cannot_be_explained_says_why(shop: House, body: dict[str, Any], status: int, code: str) -> None:
    response = shop.client.post("/v1/explain", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
