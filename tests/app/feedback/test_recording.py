"""What people say of hits is kept as far as the operator allows, listed, carried along and removed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.collections.evidence import FEW_VERDICTS
from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from index.store.feedback import page_of_judgements
from multifold.client import Client, MixPart, Search
from multifold.wire.files import UploadedFile, file_text
from tests.app.answers import refused
from tests.app.house import House, box, house, png
from tests.waiting import until


@pytest.fixture(scope="module")
def open_house(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service that keeps everything that is asked."""
    with house(tmp_path_factory.mktemp("data"), bundle, feedback="all") as opened:
        for colour in ("red", "blue"):
            assert opened.put(f"{colour}-box", colour).status_code == 200
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
    clear(shop)


def test_pages_hold_every_verdict_once(shop: House) -> None:
    for number in range(7):
        judge(shop, {"text": f"red {number}"})
    with Client(shop.url) as client:
        texts = sorted(one.query[0].text or "" for one in client.judgements(page=3))
    assert texts == [f"red {number}" for number in range(7)]
    clear(shop)


def test_pictures_are_not_kept_unless_that_is_allowed(shop: House, open_house: House) -> None:
    query = {"image": file_text(png("red"))}
    assert judge(shop, query)["query"][0]["url"] is None
    kept = judge(open_house, query)["query"][0]["url"]
    assert open_house.client.get(kept).content == png("red")
    assert shop.client.get("/v1/feedback/0/files/0").status_code == 404
    clear(shop)
    clear(open_house)


def test_verdicts_teach_the_evidence(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, feedback="text") as at:
        for colour in ("red", "blue", "green", "yellow"):  # strangers are compared with each other
            at.put(f"{colour}-box", colour)
        for number in range(FEW_VERDICTS):
            judge(at, {"text": f"a red box, size {number}"})

        def taught() -> bool:
            evidence = at.client.get("/v1/info").json()["collection"]["evidence"]["text"]
            return bool(evidence["judgements"] == FEW_VERDICTS < evidence["queries"])

        until(taught, what="a fit on the verdicts")


@pytest.mark.parametrize(("feedback", "kept"), [("verdicts", None), ("text", "red")])
def test_texts_are_kept_unless_that_is_forbidden(
    tmp_path: Path, bundle: Path, feedback: str, kept: str | None
) -> None:
    with house(tmp_path, bundle, feedback=feedback) as at:
        at.put("red-box", "red")
        assert judge(at, {"text": "red"})["query"][0]["text"] == kept
        assert at.client.get("/v1/info").json()["feedback"] is True


def test_a_service_may_keep_none(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, feedback="off") as at:
        assert at.client.get("/v1/info").json()["feedback"] is False
        body = {"query": {"text": "red"}, "item": "red-box", "verdict": "good"}
        refused(at.client.post("/v1/feedback", json=body), 403, "no_feedback")


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
    ("body", "status", "code"),
    [
        ({"query": {"text": "red"}, "item": "nobody", "verdict": "good"}, 404, "not_found"),
        ({"query": {"text": "red"}, "item": "red-box", "verdict": "fine"}, 422, "bad_request"),
        ({"query": {}, "item": "red-box", "verdict": "good"}, 422, "no_query"),
        ({"query": {"text": "red" * 1000}, "item": "red-box", "verdict": "good"}, 422, "bad_text"),
        ({"query": {"text": "a\u0000b"}, "item": "red-box", "verdict": "good"}, 422, "bad_feedback"),
        (
            {"query": {"image": "data:image/png;base64,AAAA"}, "item": "red-box", "verdict": "bad"},
            422,
            "bad_image",
        ),
        (
            {"query": {"text": "red"}, "item": "red-box", "verdict": "good", "by": "a" * 129},
            422,
            "bad_request",
        ),
        (
            {"query": {"text": "red"}, "item": "red-box", "verdict": "good", "by": "\u0000"},
            422,
            "bad_feedback",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(shop: House, body: dict[str, Any], status: int, code: str) -> None:
    refused(shop.client.post("/v1/feedback", json=body), status, code)
    assert listed(shop) == []


def test_an_observation_that_is_not_there_is_refused(shop: House) -> None:
    said = judge(shop, {"text": "red"}, observation={"kind": "view", "index": 99})
    assert said["error"]["code"] == "not_found"


def test_the_client_judges(open_house: House) -> None:
    with Client(open_house.url) as client:
        said = client.judge(Search(text="red"), "red-box", "good", kind="view", index=1, by="ann")
        client.judge(Search(mix=[MixPart(text="red"), MixPart(text="blue", weight=-1.0)]), "blue-box", "bad")
        assert {one.verdict for one in client.judgements()} == {"good", "bad"}
        assert client.withdraw(said.id) == 1
        assert client.withdraw(said.id) == 0
    clear(open_house)


def test_verdicts_are_counted_and_written_down(open_house: House) -> None:
    judge(open_house, {"text": "red"}, verdict="bad")
    assert (
        'multifold_feedback_total{collection="main",verdict="bad"}' in open_house.client.get("/metrics").text
    )
    lines = (open_house.shelf.settings.data / "audit.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["action"] == "feedback bad"
    clear(open_house)


def test_a_snapshot_holds_them(open_house: House, tmp_path: Path) -> None:
    judge(open_house, {"image": file_text(png("yellow"))})
    name = open_house.client.post("/v1/snapshots").json()["name"]
    restore_snapshot(open_house.shelf.settings.data / "snapshots" / name, tmp_path / "copy")
    with Collection.open(tmp_path / "copy", open_house.service.encoder) as collection:
        (kept,) = collection.read(page_of_judgements)
        assert kept.query[0].blob is not None
        assert collection.blobs.get(kept.query[0].blob) == png("yellow")
    clear(open_house)


def test_a_collection_made_anew_has_them(open_house: House) -> None:
    judge(open_house, {"image": file_text(png("red"))}, by="ann")
    with Client(open_house.url) as client:
        assert client.wait(client.rebuild("main", "anew").id).state == "done"
    (kept,) = open_house.client.get("/v1/collections/anew/feedback").json()["feedback"]
    assert kept["by"] == "ann"
    assert open_house.client.get(kept["query"][0]["url"]).content == png("red")
    open_house.client.delete("/v1/collections/anew")
    clear(open_house)
