"""Items bring features that were made elsewhere, beside or instead of captions and photos."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from multifold.client import Client, NewItem, ServiceError
from tests.app.answers import refused, uri, write
from tests.app.house import House, png
from tests.tiny import FEATURE


@pytest.fixture
def red(own: House) -> Iterator[list[float]]:
    """The feature of a red thing; what a test writes is removed."""
    yield own.service.encoder.texts(["red thing"]).features[0].tolist()
    own.client.post("/v1/items/delete", json={"ids": ["a", "b", "c"]})


def kept(shop: House, name: str) -> dict[tuple[str, int], np.ndarray]:
    """The features of an item by kind and place."""
    return {(one.kind, one.index): one.feature for one in shop.service.item(name).observations}


def test_every_side_takes_vectors(own: House, red: list[float]) -> None:
    for side, kind in (("text", "caption"), ("image", "photo"), ("shape", "view")):
        (written,) = write(own, {"id": "a", "vectors": {side: [red, red]}})["results"]
        assert written["written"]["observations"][kind] == 2
        (vector,) = own.service.encoder.vectors(np.array([red], np.float32)).tolist()
        assert own.search(vector=vector, target=side).json()["hits"][0]["matched"]["kind"] == kind
        stored = own.client.get("/v1/items/a").json()["observations"]
        assert [(one["text"], one["url"]) for one in stored] == [(None, None)] * 2
        assert own.client.get("/v1/items/a/thumbnail").status_code == 404
        explained = own.client.post("/v1/explain", json={"text": "red thing", "item": "a"}).json()
        assert explained["explained"]["heat_map"] is None


def test_captions_and_photos_keep_what_they_are_beside_their_vectors(own: House, red: list[float]) -> None:
    blue = [-number for number in red]
    body = {
        "texts": ["a chair", "blue thing"],
        "images": [uri(png("blue"), "image/png")],
        "vectors": {"text": [red], "image": [red, blue]},
    }
    counts = own.client.put("/v1/items/a", json=body).json()["observations"]
    assert counts == {"caption": 2, "photo": 2, "view": 0}
    features = kept(own, "a")
    assert features["caption", 0].tolist() == features["photo", 0].tolist() == red
    assert features["photo", 1].tolist() == blue
    (encoded,) = own.service.encoder.texts(["blue thing"]).features
    np.testing.assert_allclose(features["caption", 1], encoded, rtol=1e-5)
    photos = [one for one in own.client.get("/v1/items/a").json()["observations"] if one["kind"] == "photo"]
    assert own.client.get(photos[0]["url"]).content == png("blue")
    assert photos[1]["url"] is None
    assert own.search(text="chair", lexical="only", target="item").json()["hits"][0]["id"] == "a"


def test_forms_take_vectors(own: House, red: list[float]) -> None:
    files = {"images": ("p.png", png("blue"))}
    form = {"id": "b", "vectors": json.dumps({"image": [red]})}
    assert own.client.post("/v1/items/form", data=form, files=files).json()["observations"]["photo"] == 1
    assert kept(own, "b")["photo", 0].tolist() == red
    for bad, code in {"[]": "bad_vectors", '{"image": [["red"]]}': "bad_request"}.items():
        answer = own.client.post("/v1/items/form", data={"id": "c", "vectors": bad}, files=files)
        refused(answer, 422, code, "'vectors")


@pytest.mark.parametrize(
    ("vectors", "code", "reason"),
    [
        ({"image": [[1.0] * (FEATURE - 1)]}, "bad_vector", f"{FEATURE - 1} numbers; features have {FEATURE}"),
        ({"image": [[1.0] * FEATURE, [1e39] + [1.0] * (FEATURE - 1)]}, "bad_vector", "vector 1 of image"),
        ({"text": [[float("nan")] * FEATURE]}, "bad_request", "a finite number"),
        ({"text": [1.0] * FEATURE}, "bad_request", "'vectors.text.0' is a list"),
        ({"points": [[1.0] * FEATURE]}, "bad_request", "'text', 'image' or 'shape'"),
        ({"image": []}, "bad_item", "0 observations"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(
    own: House, vectors: dict[str, Any], code: str, reason: str
) -> None:
    raw = json.dumps({"vectors": vectors})
    headers = {"content-type": "application/json"}
    refused(own.client.put("/v1/items/a", content=raw, headers=headers), 422, code, reason)


def test_the_client_sends_vectors_of_any_form(own: House, red: list[float]) -> None:
    feature: Any = np.array(red, np.float32)
    twice: Any = np.stack([feature, feature])
    with Client(own.url) as client:
        client.upsert("a", texts=["red chair"], vectors={"text": [feature], "image": twice})
        client.upsert_many([NewItem("b", images=[png("blue")], vectors={"image": [tuple(red)]})])
        assert [one.kind for one in client.get("a").observations] == ["caption", "photo", "photo"]
        assert kept(own, "b")["photo", 0].tolist() == red
        with pytest.raises(ServiceError, match="features have") as error:
            client.upsert("c", vectors={"shape": [[1.0]]})
        assert error.value.code == "bad_vector"


def test_a_rebuild_names_items_that_cannot_be_encoded_again(own: House, red: list[float]) -> None:
    write(own, {"id": "a", "texts": ["a chair"], "vectors": {"text": [red, red]}})
    with Client(own.url) as client:
        done = client.wait(client.rebuild("main", "again").id)
        client.drop_collection("again")
    assert done.state == "failed"
    assert "'a': it has vectors without a caption or picture" in done.errors[0]
