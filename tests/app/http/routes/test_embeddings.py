"""Embeddings and models, as clients of OpenAI's API expect them."""

import base64
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from multifold.client import Client
from multifold.types import SIDES
from tests import tiny
from tests.app.answers import refused, uri
from tests.app.house import House, house, png


def post(shop: House, **asked: Any) -> httpx.Response:  # noqa: ANN401 (any JSON)
    return shop.client.post("/v1/embeddings", json=asked)


def expected(shop: House, *texts: str) -> np.ndarray:
    encoder = shop.service.encoder
    return encoder.vectors(encoder.texts(texts).features)


def test_texts_become_vectors_in_their_order(shop: House) -> None:
    answer = post(shop, input=["a red box", "blue"], model="tiny").json()
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert [(one["object"], one["index"]) for one in answer["data"]] == [("embedding", 0), ("embedding", 1)]
    got = np.array([one["embedding"] for one in answer["data"]])
    np.testing.assert_allclose(got, expected(shop, "a red box", "blue"), atol=1e-6)
    assert answer["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


@pytest.mark.parametrize("target", SIDES)
def test_a_vector_finds_what_it_was_made_of_finds(shop: House, target: str) -> None:
    """But for words, which a vector does not have."""
    picture = uri(png("blue"))
    for given, side in (({"text": "a red box"}, None), ({"image": picture}, "image")):
        content, modality = next(iter(given.values())), side or "text"
        vector = post(shop, input=content, modality=modality).json()["data"][0]["embedding"]
        made_of = {"side": side} if side else {}
        options = {"target": target, "lexical": "off", "limit": 50}
        wanted = shop.search(**given, **options).json()["hits"]
        found = shop.search(vector=vector, **made_of, **options).json()["hits"]
        assert [one["id"] for one in found] == [one["id"] for one in wanted]
        scores = [one["score"] for one in found]
        assert scores == pytest.approx([one["score"] for one in wanted], abs=1e-4)


def test_one_text_may_stand_alone_and_base64_is_the_same(shop: House) -> None:
    answer = post(
        shop, input="a red box", encoding_format="base64", dimensions=tiny.FEATURE, user="me"
    ).json()
    got = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(got, expected(shop, "a red box")[0], atol=1e-6)


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({}, 422, "bad_request"),
        ({"input": ""}, 422, "bad_text"),
        ({"input": ["red"], "model": "gpt"}, 404, "no_such_model"),
        ({"input": ["red"], "dimensions": 4}, 400, "bad_dimensions"),
        ({"input": ["red"], "modality": "image"}, 422, "bad_image"),
        ({"input": ["red"] * 257}, 422, "too_many"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    shop: House, asked: dict[str, Any], status: int, code: str
) -> None:
    refused(post(shop, **asked), status, code)
    assert post(shop, input=[]).json()["data"] == []


def test_the_bundle_is_the_model(shop: House) -> None:
    models = shop.client.get("/v1/models").json()
    assert [one["id"] for one in models["data"]] == ["tiny"]
    assert shop.client.get("/v1/models/tiny").json() == models["data"][0]
    refused(shop.client.get("/v1/models/gpt"), 404, "no_such_model")


def test_vectors_are_cut_where_the_bundle_was_trained_so(tmp_path: Path) -> None:
    tiny.build(tmp_path / "bundle", prefixes=(2, 3))
    with house(tmp_path / "data", tmp_path / "bundle") as opened:
        (model,) = opened.client.get("/v1/models").json()["data"]
        assert (model["dimensions"], model["prefixes"]) == (tiny.FEATURE, [2, 3])
        whole = expected(opened, "a red box", "blue")[:, :2]
        answer = post(opened, input=["a red box", "blue"], dimensions=2).json()
        got = np.array([one["embedding"] for one in answer["data"]])
        np.testing.assert_allclose(got, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6)
        with Client(opened.url) as client:
            np.testing.assert_allclose(client.embed(["a red box", "blue"], dimensions=2), got, atol=1e-6)
        refused(post(opened, input=["blue"], dimensions=1), 400, "bad_dimensions", "2 or 3 or")
        assert post(opened, input=[], dimensions=2).json()["data"] == []
