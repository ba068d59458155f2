"""A collection encoded again for another encoder, beside the old one, and an alias that moves to it."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.collections.service import CollectionService
from app.ingest.pipeline import EncodedItem
from app.ingest.sources import ItemSource
from app.runtime import rebuild
from app.runtime.rebuild import CollectionCopier
from multifold.bundle.bundle import Tolerance
from multifold.client import Client, ServiceError
from multifold.payload import owner_part
from tests import tiny
from tests.app.answers import refused
from tests.app.house import House, house, png
from tests.index.servers import Server
from tests.waiting import wait_for

MEASURED = {"items": 4}


on_both_stores = pytest.mark.parametrize("mall", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def mall(request: pytest.FixtureRequest, tmp_path: Path, bundle: Path, others: Path) -> Iterator[House]:
    """A service with two photos."""
    server: Server | None = None
    if getattr(request, "param", "sqlite") == "postgres":
        server = request.getfixturevalue("server")
    database = None if server is None else server.place()
    with house(tmp_path / "data", bundle, bundles=others, database=database) as opened:
        for colour in ("red", "blue"):
            files = [("images", ("p.png", png(colour), "image/png"))]
            said = {"texts": [f"a {colour} box"]}
            assert opened.client.put(f"/v1/items/{colour}-box", data=said, files=files).is_success
        yield opened


@pytest.fixture
def client(mall: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 0.2)
    with Client(mall.url) as opened:
        yield opened


@on_both_stores
def test_a_collection_moves_to_another_encoder_and_back(mall: House, client: Client) -> None:
    assert mall.put("red-box", "red").status_code == 200
    before = client.info()["bundle"]["vector_id"]
    job = client.rebuild("default", "second", bundle="second", alias="default")
    done = client.wait(job.id, 0.05)
    assert (done.state, done.errors) == ("done", ())
    assert (done.result["alias"], done.result["former"]) == ("default", "main")
    assert client.info()["bundle"]["vector_id"] != before
    assert client.info()["bundle"]["name"] == "second"
    assert client.count() == 2
    shown = client.get("red-box")
    assert sorted(one.kind for one in shown.observations) == ["caption"] * 2 + ["photo"] + ["view"] * 6
    assert owner_part(shown.payload) == {"is": "red"}
    assert shown.payload["measured"]["triangles"] == 12
    hit = client.search(image=png("red"), target="shape").hits[0]
    assert hit.id == "red-box"
    assert client.picture(str(hit.matched.url))
    client.set_alias("default", "main")  # back at once
    assert client.info()["bundle"]["vector_id"] == before
    client.delete("blue-box")
    again = client.wait(client.rebuild("main", "second", alias="default").id, 0.05)  # brought up to date
    assert again.state == "done"
    assert client.count() == 1
    client.drop_alias("default")


def test_a_move_is_taken_back_with_what_was_written_since(
    mall: House, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.upsert("old", texts=["an old box"])
    done = client.wait(client.rebuild("main", "second", bundle="second", alias="default").id, 0.05)
    assert client.info()["bundle"]["name"] == "second"
    client.upsert("new", texts=["a yellow box"], images=[png("yellow")])
    client.update("red-box", payload={"is": "changed"})
    client.delete("blue-box")
    made: list[str] = []
    plain = CollectionService.prepare

    async def noted(self: CollectionService, source: ItemSource, *more: Any) -> EncodedItem:  # noqa: ANN401
        made.append(source.id)
        return await plain(self, source, *more)

    monkeypatch.setattr(CollectionService, "prepare", noted)
    moved = int(str(done.result["moved_at"]))
    back = client.wait(client.rebuild("second", "main", alias="default", since=moved).id, 0.05)
    assert (back.state, back.errors) == ("done", ())
    assert sorted(set(made)) == ["new", "red-box"]
    assert client.info()["bundle"]["name"] == "tiny"
    assert client.count() == 3
    assert client.get("red-box").payload == {"is": "changed"}
    assert client.search(image=png("yellow"), target="image").hits[0].id == "new"
    with pytest.raises(ServiceError, match="there is no collection 'third'"):
        client.rebuild("main", "third", since=0)
    assert client.aliases() == {"default": ("main",)}


def test_a_move_back_that_would_lose_items_moves_nothing(
    mall: House, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "COUNT_TRIES", 1)
    client.wait(client.rebuild("main", "second", bundle="second", alias="default").id, 0.05)
    client.upsert("new", texts=["a yellow box"])
    version = int(client.info()["collection"]["version"])
    failed = client.wait(client.rebuild("second", "main", alias="default", since=version).id, 0.05)
    assert failed.state == "failed"
    assert "the new collection has 2 items, and the former one 3" in failed.errors[0]
    assert client.info()["bundle"]["name"] == "second"


@on_both_stores
def test_writes_meanwhile_are_in_both(mall: House, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on, plain = threading.Event(), threading.Event(), CollectionService.prepare

    async def slow(self: CollectionService, source: ItemSource, *more: Any) -> EncodedItem:  # noqa: ANN401
        if self.name == "second":
            reached.set()
            await asyncio.to_thread(wait_for, go_on, "the test to let it go on")
        return await plain(self, source, *more)

    monkeypatch.setattr(CollectionService, "prepare", slow)
    job = client.rebuild("main", "second", bundle="second", alias="default")
    wait_for(reached, "the rebuild to begin")
    client.upsert("new", texts=["a yellow box"])
    client.upsert("red-box", texts=["a white box"])
    client.delete("blue-box")
    assert client.count() == 2  # readers see the old one
    assert client.info()["bundle"]["name"] == "tiny"
    go_on.set()
    assert client.wait(job.id, 0.05).state == "done"
    assert client.info()["bundle"]["name"] == "second"
    assert [item.id for item in client.items()] == ["new", "red-box"]
    assert client.search(text="a white box", target="text").hits[0].id == "red-box"


def test_a_straggler_is_not_lost(mall: House, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had asked for the alias before that was moved, and writes after the first look at the log since."""
    plain = CollectionCopier.catch_up
    to_write = [partial(client.collection("main").upsert, "late", texts=["a black box"])]

    async def caught_up(self: CollectionCopier) -> None:
        await plain(self)
        if to_write and "alias" in self._progress.result:
            await asyncio.to_thread(to_write.pop())

    monkeypatch.setattr(CollectionCopier, "catch_up", caught_up)
    job = client.rebuild("main", "second", bundle="second", alias="default")
    assert client.wait(job.id, 0.05).state == "done"
    assert client.info()["bundle"]["name"] == "second"
    assert client.get("late").id == "late"


def test_what_cannot_be_made_anew_moves_nothing(mall: House, client: Client) -> None:
    for path in (mall.service.settings.data / "blobs").glob("*/*.png"):
        path.unlink()
        break
    done = client.wait(client.rebuild("main", "second", bundle="second", alias="default").id, 0.05)
    assert done.state == "failed"
    assert "could not be encoded again" in done.errors[-1]
    assert client.info()["bundle"]["name"] == "tiny"
    done = client.wait(client.rebuild("main", "second", partial=True).id, 0.05)
    assert done.state == "done"
    assert client.collection("second").count() == 1
    assert client.info()["bundle"]["name"] == "tiny"


def test_what_makes_no_sense_is_refused(client: Client) -> None:
    found = {one.folder: one for one in client.bundles()}
    assert (found["second"].name, found["second"].collections) == ("second", ())
    assert "image.onnx" in str(found["broken"].trouble)
    client.create_collection("same")
    for name, to, bundle, alias, code in (
        ("main", "main", None, None, "taken"),
        ("nothing", "second", None, None, "no_such_collection"),
        ("main", "../x", None, None, "bad_name"),
        ("main", "same", "second", None, "taken"),
        ("main", "second", "broken", None, "no_such_bundle"),
        ("main", "same", None, "main", "taken"),
        ("main", "same", None, "a b", "bad_name"),
    ):
        with pytest.raises(ServiceError) as caught:
            client.rebuild(name, to, bundle=bundle, alias=alias)
        assert caught.value.code == code
    assert [job.kind for job in client.jobs()] == []
    assert [one.name for one in client.collections()] == ["main", "same"]


def test_a_bundle_is_read_anew_without_a_failed_request(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    tiny.build(folder)
    with house(tmp_path / "data", folder) as shop, Client(shop.url) as client:
        assert shop.put("red-box", "red").is_success
        before = client.info()["bundle"]
        statuses: list[int] = []
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                statuses.append(shop.search(text=f"a red box {len(statuses)}").status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            tiny.build(folder, evaluation=MEASURED)
            (bundle_id,) = client.reload_bundles().values()
            after = client.info()["bundle"]
            assert client.reload_bundles() == {"tiny": bundle_id}
            tiny.build(folder, seed=1)
            refused(shop.client.post("/v1/bundles/reload"), 409, "other_vectors", "rebuild its collections")
            tiny.build(
                folder,
                evaluation=MEASURED,
                tolerances={"fp32/*": Tolerance(2.0, 0.01, 1.0)},
            )
            refused(shop.client.post("/v1/bundles/reload"), 422, "refused", "canar")
        finally:
            over.set()
            asking.join()
        assert after["bundle_id"] == bundle_id != before["bundle_id"]
        assert after["vector_id"] == before["vector_id"]
        assert set(statuses) == {200}
        assert shop.search(text="a red box").json()["hits"][0]["confidence"] is not None
        assert shop.put("blue-box", "blue").is_success
        assert shop.best(text="blue") == "blue-box"
