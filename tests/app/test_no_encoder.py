"""Collections without an encoder: items and queries bring vectors, words find texts, the rest is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multifold.client import Client, MixPart, ServiceError
from multifold.types import Distance
from tests.app.answers import refused, uri
from tests.app.house import House, box, house, png

EAST, NORTH, FAR_EAST = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [9.0, 3.0, 0.0]
AT = "/v1/collections/mine"


def fill(shop: House, distance: Distance = "cosine") -> None:
    """A collection of three items, one of which has a caption, one a picture and one a payload."""
    body = {"name": "mine", "vectors": {"dim": 3, "distance": distance}}
    made = shop.client.post("/v1/collections", json=body)
    assert made.status_code == 201, made.text
    items: list[dict[str, Any]] = [
        {"id": "east", "texts": ["a red chair"], "vectors": {"text": [EAST], "image": [EAST]}},
        {"id": "north", "images": [uri(png("blue"), "image/png")], "vectors": {"image": [NORTH]}},
        {"id": "far", "payload": {"name": "green sofa"}, "vectors": {"image": [FAR_EAST]}},
    ]
    assert shop.client.post(f"{AT}/items", json={"items": items}).json()["written"] == 3


@pytest.fixture
def mine(own: House) -> Iterator[House]:
    fill(own)
    yield own
    assert own.client.delete(AT).is_success


def ids(shop: House, **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    answer = shop.client.post(f"{AT}/search", json=asked)
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


@pytest.mark.parametrize(
    ("distance", "best", "score"), [("cosine", "east", 1.0), ("ip", "far", 18.0), ("l2", "east", -1.0)]
)
def test_vectors_are_compared_as_was_asked_for(
    own: House, distance: Distance, best: str, score: float
) -> None:
    fill(own, distance)
    try:
        for side in ("text", "image"):  # what the query was made of
            asked = {"vector": [2.0, 0.0, 0.0], "side": side, "target": "image"}
            first = own.client.post(f"{AT}/search", json=asked).json()["hits"][0]
            assert (first["id"], first["confidence"]) == (best, None)
            assert first["score"] == pytest.approx(score)
        assert ids(own, id="north", target="image")[0] == ("far" if distance == "ip" else "north")
        assert len(ids(own, vector=EAST)) == 3
    finally:
        own.client.delete(AT)


def test_vectors_of_one_side_are_ranked_by_their_distance(own: House) -> None:
    body = {"name": "mine", "vectors": {"dim": 3, "distance": "cosine"}}
    assert own.client.post("/v1/collections", json=body).status_code == 201
    try:
        items = [{"id": name, "vectors": {"image": [at]}} for name, at in (("east", EAST), ("north", NORTH))]
        assert own.client.post(f"{AT}/items", json={"items": items}).json()["written"] == 2
        hits = own.client.post(f"{AT}/search", json={"vector": EAST}).json()["hits"]
        assert [hit["id"] for hit in hits] == ["east", "north"]
        assert hits[0]["score"] == pytest.approx(1.0)
        both = {"id": "north", "vectors": {"image": [NORTH], "text": [EAST]}}
        assert own.client.post(f"{AT}/items", json={"items": [both]}).json()["written"] == 1
        assert own.client.post(f"{AT}/search", json={"vector": EAST}).json()["hits"][0]["score"] < 1
    finally:
        own.client.delete(AT)


def test_words_find_captions_names_and_payloads(mine: House) -> None:
    assert ids(mine, text="red chair")[0] == "east"
    assert ids(mine, text="green sofa", target="any")[0] == "far"
    assert ids(mine, text="sofa", lexical="only", limit=1) == ["far"]
    assert ids(mine, text="nothing of the kind") == []
    photo = mine.client.get(f"{AT}/items/north").json()["observations"][0]
    assert mine.client.get(photo["url"]).content == png("blue")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("search", {"text": "red", "target": "image"}),
        ("search", {"text": "red", "lexical": "off"}),
        ("search", {"image": uri(png("red"), "image/png")}),
        ("search", {"mesh": uri(box("red")), "mesh_format": "glb"}),
        ("search", {"mix": [{"text": "red"}, {"vector": EAST}]}),
        ("explain", {"text": "red", "item": "east"}),
        ("traverse", {"id": "east"}),
        ("embeddings", {"input": ["red"]}),
        ("classify", {"id": "east", "labels": ["chair", "sofa"]}),
        ("rerank", {"text": "red", "candidates": [{"id": "east"}]}),
        ("items", {"id": "new", "texts": ["a caption"]}),
        ("items", {"id": "new", "images": [uri(png("red"), "image/png")]}),
        ("items", {"id": "new", "mesh": uri(box("red")), "mesh_format": "glb"}),
    ],
)
def test_what_needs_an_encoder_is_refused(mine: House, path: str, body: dict[str, Any]) -> None:
    answer = mine.client.post(f"{AT}/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "no_encoder"
    assert "has no encoder: give a vector" in answer.json()["error"]["message"]


def test_captions_and_rebuilds_need_an_encoder_too(mine: House) -> None:
    refused(mine.client.patch(f"{AT}/items/east", json={"texts": ["a"]}), 422, "no_encoder")
    assert mine.client.patch(f"{AT}/items/east", json={"payload": {"price": 3}}).is_success
    refused(mine.client.post("/v1/collections/main/rebuild", json={"to": "mine"}), 422, "no_encoder")


def test_a_rebuild_into_an_encoder_names_what_it_cannot_encode(mine: House) -> None:
    """What has a caption or picture is encoded; of what is a vector alone the new encoder knows nothing."""
    with Client(mine.url) as client:
        job = client.wait(client.rebuild("mine", "encoded").id)
    assert job.state == "failed"
    assert sorted(job.result["missing"]) == ["east", "far"]  # an image of each is but a vector
    assert "vectors without a caption or picture" in job.result["missing"]["far"]
    with Client(mine.url) as client:
        job = client.wait(client.rebuild("mine", "encoded", partial=True).id)
        assert job.state == "done"
        assert [hit.id for hit in client.collection("encoded").search(text="blue").hits] == ["north"]
        client.drop_collection("encoded")


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ({"image": [[1.0, 2.0]]}, "has 2 numbers; features have 3"),
        ({"image": [[0.0, 0.0, 0.0]]}, "no direction"),
        ({"text": [[1e30, 1e39, 0.0]]}, "no direction"),
    ],
)
def test_vectors_without_meaning_are_refused(mine: House, vectors: dict[str, Any], reason: str) -> None:
    refused(mine.client.put(f"{AT}/items/bad", json={"vectors": vectors}), 422, "bad_vector", reason)
    (vector,) = next(iter(vectors.values()))
    refused(mine.client.post(f"{AT}/search", json={"vector": vector}), 422, "bad_vector", reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"vectors": {"dim": 0}}, "'vectors.dim' is 1 or more"),
        ({"vectors": {"dim": 3, "distance": "dot"}}, "'cosine', 'ip' or 'l2'"),
        ({"vectors": {"dim": 3}, "bundle": "any"}, "a 'bundle', or 'vectors'"),
    ],
)
def test_a_collection_that_cannot_be_is_refused(own: House, body: dict[str, Any], reason: str) -> None:
    refused(own.client.post("/v1/collections", json={"name": "mine", **body}), 422, "bad_request", reason)


def test_what_is_said_of_it_is_true(mine: House) -> None:
    status = mine.client.get(AT).json()
    assert (status["vector_id"], status["bundle"], status["trouble"]) == ("plain-cosine-3", None, None)
    bundle = mine.client.get(f"{AT}/info").json()["bundle"]
    assert (bundle["name"], bundle["dim"], bundle["calibrated_by"]) == ("none", 3, "prior")
    assert mine.client.get(f"{AT}/models").json()["data"][0]["modalities"] == []
    assert 'multifold_info{bundle="none",collection="mine"' in mine.client.get("/metrics").text
    mine.client.put("/v1/aliases/default", json={"collection": "mine"})
    assert mine.client.get("/readyz").json() == {"status": "ok"}
    mine.client.delete("/v1/aliases/default")
    assert mine.client.post("/v1/bundles/reload").is_success


def test_the_client_makes_and_asks_such_a_collection(own: House) -> None:
    with Client(own.url) as client:
        client.create_collection("mine", dim=3, distance="ip")
        mine = client.collection("mine")
        mine.upsert("east", texts=["a red chair"], vectors={"text": [EAST]}, payload={"price": 3})
        assert mine.search(vector=EAST, target="text").hits[0].id == "east"
        assert mine.search(text="chair", filter={"price": {"lt": 4}}).hits[0].id == "east"
        assert mine.explain(MixPart(vector=EAST), "east", maps=False).sides == {"text": 1.0}
        with pytest.raises(ServiceError, match="has no encoder"):
            mine.embed(["red"])
        client.drop_collection("mine")


def test_it_survives_restarts_and_snapshots(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path / "data", bundle) as first:
        fill(first)
        taken = first.client.post(f"{AT}/snapshots?name=early").json()
        assert taken["items"] == 3
        assert first.client.delete(f"{AT}/items/east").is_success
        with Client(first.url) as client:
            job = client.collection("mine").restore_snapshot("early.tar", "again")
            assert client.wait(job.id).state == "done"
    with house(tmp_path / "data", bundle) as second:
        assert ids(second, vector=EAST, target="image") == ["far", "north"]
        second.shelf.service("mine").evidence.fit()
        assert second.shelf.service("mine").evidence.model.version
        assert ids(second, text="sofa") == ["far"]
        again = second.client.post("/v1/collections/again/search", json={"vector": EAST, "target": "text"})
        assert [hit["id"] for hit in again.json()["hits"]] == ["east"]
        assert second.client.post(f"{AT}/reindex", json={"type": "exact"}).status_code == 202
    shutil.rmtree(tmp_path)
