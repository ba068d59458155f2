"""What people say of hits is kept as far as the operator allows, listed, carried along and removed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.collections import evidence
from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from index.store.feedback import page_of_judgements
from multifold.client import Client
from multifold.wire.files import UploadedFile, file_text
from tests.app.answers import refused
from tests.app.house import House, box, house, png
from tests.waiting import until


@pytest.fixture(scope="module")
def open_house(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service that keeps everything that is asked."""
    with house(tmp_path_factory.mktemp("data"), bundle, feedback="all") as opened:
        opened.fill("red", "blue")
        yield opened


def judge(
    at: House,
    query: dict[str, Any],
    item: str = "red-box",
    verdict: str = "good",
    **more: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 (JSON)
    response = at.client.post("/v1/feedback", json={"query": query, "item": item, "verdict": verdict, **more})
    return response.json()


def listed(at: House, **chosen: str) -> list[Any]:
    found: list[Any] = at.client.get("/v1/feedback", params=chosen).json()["feedback"]
    return found


def clear(at: House) -> None:
    for one in listed(at):
        assert at.client.delete(f"/v1/feedback/{one['id']}").json() == {"removed": 1}


def test_a_verdict_is_kept_listed_and_removed(shop: House) -> None:
    said = judge(shop, {"text": "a red box"}, by="ann", observation={"kind": "view", "index": 2})
    assert said["query"] == [
        {"means": "text", "weight": 1.0, "text": "a red box", "id": None, "side": None, "url": None}
    ]
    assert (said["item"], said["verdict"], said["by"]) == ("red-box", "good", "ann")
    assert said["observation"] == {"kind": "view", "index": 2}
    assert listed(shop) == [said]
    assert shop.client.delete(f"/v1/feedback/{said['id']}").json() == {"removed": 1}
    assert shop.client.delete(f"/v1/feedback/{said['id']}").json() == {"removed": 0}
    assert listed(shop) == []


def test_the_same_person_changes_their_mind_and_others_have_their_own(shop: House) -> None:
    for verdict in ("good", "bad"):
        judge(shop, {"text": "red", "limit": 3 if verdict == "bad" else 10}, verdict=verdict, by="ann")
    judge(shop, {"text": "red"}, by="bob")
    judge(shop, {"text": "red"}, item="blue-box", by="ann")
    said = {(one["item"], one["by"]): one["verdict"] for one in listed(shop)}
    assert said == {("red-box", "ann"): "bad", ("red-box", "bob"): "good", ("blue-box", "ann"): "good"}
    assert [one["by"] for one in listed(shop, verdict="bad")] == ["ann"]
    assert len(listed(shop, item="red-box")) == 2
    with Client(shop.url) as client:  # pages hold every verdict once
        assert sorted((one.item, one.by) for one in client.judgements(page=2)) == sorted(said)
    clear(shop)


def test_pictures_are_not_kept_unless_that_is_allowed(shop: House, open_house: House) -> None:
    query = {"image": file_text(png("red"))}
    assert judge(shop, query)["query"][0]["url"] is None
    kept = judge(open_house, query)["query"][0]["url"]
    assert open_house.client.get(kept).content == png("red")
    assert shop.client.get("/v1/feedback/0/files/0").status_code == 404
    clear(shop)
    clear(open_house)


def test_verdicts_teach_the_evidence(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "QUIET", 0.1)
    with house(tmp_path, bundle, feedback="text") as at:
        at.fill()  # strangers are compared with each other
        for number in range(evidence.FEW_VERDICTS):
            judge(at, {"text": f"a red box, size {number}"})

        def taught() -> bool:
            told = at.client.get("/v1/info").json()["collection"]["evidence"]["text"]
            return bool(told["judgements"] == evidence.FEW_VERDICTS < told["queries"])

        until(taught, what="a fit on the verdicts")


def test_every_means_of_asking_can_be_judged(open_house: House) -> None:
    vector = open_house.client.post("/v1/embeddings", json={"input": ["red"]}).json()["data"][0]["embedding"]
    mesh = {"mesh": UploadedFile(box("red"), "a.glb", "model/gltf-binary").data_uri}
    assert judge(open_house, mesh)["query"][0]["url"]
    assert judge(open_house, {"id": "blue-box"}, verdict="bad")["query"][0]["id"] == "blue-box"
    assert judge(open_house, {"vector": vector})["query"][0]["means"] == "vector"
    mixed = judge(open_house, {"mix": [{"text": "red"}, {"id": "blue-box", "weight": -0.5}]})
    assert [(part["means"], part["weight"]) for part in mixed["query"]] == [("text", 1.0), ("id", -0.5)]
    assert len(listed(open_house)) == 4
    clear(open_house)


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"item": "nobody"}, 404, "not_found"),
        ({"verdict": "fine"}, 422, "bad_request"),
        ({"query": {}}, 422, "no_query"),
        ({"query": {"text": "red" * 1000}}, 422, "bad_text"),
        ({"query": {"text": "a\u0000b"}}, 422, "bad_feedback"),
        ({"query": {"image": "data:image/png;base64,AAAA"}}, 422, "bad_image"),
        ({"by": "a" * 129}, 422, "bad_request"),
        ({"by": "\u0000"}, 422, "bad_feedback"),
        ({"observation": {"kind": "view", "index": 99}}, 404, "not_found"),
    ],
)
def test_what_makes_no_sense_is_refused(shop: House, changes: dict[str, Any], status: int, code: str) -> None:
    body = {"query": {"text": "red"}, "item": "red-box", "verdict": "good", **changes}
    refused(shop.client.post("/v1/feedback", json=body), status, code)
    assert listed(shop) == []


def test_verdicts_are_counted_and_written_down(open_house: House) -> None:
    judge(open_house, {"text": "red"}, verdict="bad")
    assert (
        'multifold_feedback_total{collection="main",verdict="bad"}' in open_house.client.get("/metrics").text
    )
    lines = (open_house.shelf.settings.data / "audit.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["action"] == "feedback bad"
    clear(open_house)


def test_texts_are_kept_unless_that_is_forbidden_and_a_service_may_keep_none(
    tmp_path: Path, bundle: Path
) -> None:
    body = {"query": {"text": "red"}, "item": "a", "verdict": "good"}
    for feedback, kept in (("verdicts", None), ("text", "red"), ("off", None)):
        with house(tmp_path, bundle, feedback=feedback) as at:
            at.client.put("/v1/items/a", files={"texts": (None, "red")})
            assert at.client.get("/v1/info").json()["feedback"] is (feedback != "off")
            answer = at.client.post("/v1/feedback", json=body)
            if feedback == "off":
                refused(answer, 403, "no_feedback")
            else:
                assert answer.json()["query"][0]["text"] == kept
                clear(at)


def test_a_snapshot_and_a_collection_made_anew_have_them(open_house: House, tmp_path: Path) -> None:
    judge(open_house, {"image": file_text(png("yellow"))}, by="ann")
    name = open_house.client.post("/v1/snapshots").json()["name"]
    restore_snapshot(open_house.shelf.settings.data / "snapshots" / name, tmp_path / "copy")
    with Collection.open(tmp_path / "copy", open_house.service.encoder) as collection:
        (kept,) = collection.read(page_of_judgements)
        assert kept.query[0].blob is not None
        assert collection.blobs.get(kept.query[0].blob) == png("yellow")
    with Client(open_house.url) as client:
        assert client.wait(client.rebuild("main", "anew").id, 0.05).state == "done"
    (anew,) = open_house.client.get("/v1/collections/anew/feedback").json()["feedback"]
    assert anew["by"] == "ann"
    assert open_house.client.get(anew["query"][0]["url"]).content == png("yellow")
    open_house.client.delete("/v1/collections/anew")
    clear(open_house)
