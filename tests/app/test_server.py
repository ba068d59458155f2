"""Under load: answers or clear refusals, nothing lost, nothing done for those who left."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from app.search import insight
from benches.service.load import post_request
from index.collection import Collection
from index.maintenance.snapshot import SnapshotReport
from index.store import browse
from multifold.bundle.encoder import EncodedTexts, Encoder
from multifold.types import Item
from tests.app.house import BOXES, House, house
from tests.waiting import until, wait_for


class Door(AbstractContextManager["Door"]):
    """The encoder reads texts only while this is open, and remembers what it read.

    It is open behind its block, so that nobody waits for ever where a test fails.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.read: list[str] = []
        texts: Callable[..., EncodedTexts] = Encoder.texts

        def behind(encoder: Encoder, said: list[str]) -> EncodedTexts:
            self.read += said
            self.entered.set()
            wait_for(self.open, "the door to open")
            return texts(encoder, said)

        monkeypatch.setattr(Encoder, "texts", behind)

    def __exit__(self, *_: object) -> None:
        self.open.set()


@pytest.fixture
def small(tmp_path: Path, bundle: Path) -> Iterator[House]:
    """A service with little room."""
    with house(tmp_path, bundle, queue=2) as opened:
        assert opened.client.put("/v1/items/a", files={"texts": (None, "a red box")}).status_code == 200
        yield opened


@pytest.fixture
def door(small: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    with Door(monkeypatch) as closed:
        yield closed


def ask(shop: House, text: str) -> httpx.Response:
    return httpx.post(f"{shop.url}/v1/search", json={"text": text}, timeout=600, trust_env=False)


def waiting(shop: House) -> int:
    """How many texts wait to be read. The page of metrics would be refused where queues are full."""
    return sum(encoder.waiting["text"] for encoder in shop.shelf.workers.query_encoders())


def test_a_full_queue_is_a_429_that_says_when_to_come_again(small: House, door: Door) -> None:
    with ThreadPoolExecutor(8) as people, door:
        first = people.submit(ask, small, "red")
        wait_for(door.entered, "the first question to be read")
        crowd = [people.submit(ask, small, f"a red box {number}") for number in range(6)]
        until(lambda: sum(one.done() for one in crowd) >= 4)
        door.open.set()
        answers = [one.result() for one in (first, *crowd)]
    refused = [one for one in answers if one.status_code == 429]
    assert len(refused) == 4
    assert sum(one.status_code == 200 for one in answers) == 3
    for one in refused:
        assert one.json()["error"]["code"] == "busy"
        assert int(one.headers["retry-after"]) >= 1
    assert ask(small, "red again").status_code == 200


def test_what_takes_too_long_is_given_up(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, bundle, request_timeout=1.5) as hasty:
        files = {"texts": (None, "a red box")}
        until(lambda: hasty.client.put("/v1/items/a", files=files).status_code == 200)
        door = Door(monkeypatch)
        try:
            response = ask(hasty, "red")
        finally:
            door.open.set()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "timeout"
        assert "1.5 s" in response.json()["error"]["message"]
        assert response.headers["retry-after"] == "1"
        until(lambda: ask(hasty, "red").status_code == 200)


def test_changes_that_wait_hold_nobody_up(small: House) -> None:
    with ThreadPoolExecutor(8) as people:
        with small.service.writing:
            changes = [people.submit(small.client.delete, f"/v1/items/none-{n}") for n in range(8)]
            until(lambda: sum(one.done() for one in changes) >= 4)  # one or two have begun, and two wait
            for _ in range(4):
                assert small.client.get("/v1/items/a", timeout=20).status_code == 200
                assert small.client.post("/v1/items/scroll", json={}, timeout=20).status_code == 200
        answers = [one.result().status_code for one in changes]
    assert sorted(answers) in ([200] * 3 + [429] * 5, [200] * 4 + [429] * 4)


def test_what_is_given_up_has_changed_nothing_and_what_has_begun_is_told(
    tmp_path: Path, bundle: Path
) -> None:
    with house(tmp_path, bundle, request_timeout=1.5) as hasty, ThreadPoolExecutor(2) as people:
        files = {"texts": (None, "a red box")}
        until(lambda: hasty.client.put("/v1/items/a", files=files).status_code == 200)
        with hasty.service.writing:
            begun = people.submit(hasty.client.delete, "/v1/items/a")
            time.sleep(0.5)  # it has begun
            waits = people.submit(hasty.client.put, "/v1/items/b", files=files)
            given_up = waits.result()
        assert (given_up.status_code, given_up.json()["error"]["code"]) == (503, "timeout")
        assert (begun.result().status_code, begun.result().json()) == (200, {"removed": 1})
        assert hasty.client.get("/v1/items/a").status_code == 404
        assert hasty.client.get("/v1/items/b").status_code == 404


def test_a_snapshot_that_has_begun_is_told(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Collection.snapshot

    def slow(collection: Collection, path: Path) -> SnapshotReport:
        time.sleep(3)
        return snapshot(collection, path)

    with house(tmp_path, bundle, request_timeout=1.5) as hasty:
        until(lambda: hasty.client.put("/v1/items/a", files={"texts": (None, "red")}).status_code == 200)
        monkeypatch.setattr(Collection, "snapshot", slow)
        assert hasty.client.post("/v1/snapshots?name=one").json()["name"] == "one.tar"


def test_a_body_that_comes_slowly_is_given_up_and_holds_nobody_up(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, request_timeout=3, queue=2) as hasty, ExitStack() as slow:
        until(lambda: hasty.client.put("/v1/items/a", files={"texts": (None, "red")}).status_code == 200)
        request = post_request("/v1/items", b"x" * 100_000, "application/json")
        port = httpx.URL(hasty.url).port
        assert port is not None
        lines = [slow.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
        for line in lines:
            line.sendall(request[:50_000])
        assert ask(hasty, "red").status_code == 200
        assert hasty.client.delete("/v1/items/a").status_code == 200
        for line in lines:
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 503 ")


def test_who_is_hungry_holds_up_no_other(small: House, door: Door) -> None:
    """Other addresses have queues of their own, and are next."""
    other = httpx.HTTPTransport(local_address="127.0.0.2")
    with ThreadPoolExecutor(8) as people, httpx.Client(transport=other, timeout=600) as client, door:
        first = people.submit(ask, small, "red")
        wait_for(door.entered, "the first question to be read")
        searches = [{"text": f"a red box {number}"} for number in range(40)]
        hungry = people.submit(small.client.post, "/v1/search/batch", json={"searches": searches})
        until(lambda: waiting(small) == 2)
        assert ask(small, "blue").status_code == 429
        asked = people.submit(client.post, f"{small.url}/v1/search", json={"text": "green"})
        until(lambda: waiting(small) == 3)
        door.open.set()
        assert asked.result().status_code == first.result().status_code == 200
        answers = hungry.result().json()["answers"]
    assert sorted(door.read[:3]) == ["a red box 0", "green", "red"]
    assert {one["error"]["code"] for one in answers if one["error"]} == {"busy"}


def test_what_is_explained_stops_when_its_client_leaves(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Sequence[str]] = []
    go_on, plain = threading.Event(), browse.items_of

    def read(connection: Connection, ids: Sequence[str]) -> dict[str, Item]:
        reads.append(ids)
        wait_for(go_on, "the client to leave")
        return plain(connection, ids)

    with house(tmp_path, bundle, workers=1) as shop:
        for colour in BOXES:
            shop.client.put(f"/v1/items/{colour}", files={"texts": (None, f"a {colour} box")})
        monkeypatch.setattr(insight, "HITS_A_STEP", 1)
        monkeypatch.setattr(browse, "items_of", read)
        body = json.dumps({"text": "a box", "target": "text", "explain": True}).encode()
        port = httpx.URL(shop.url).port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(post_request("/v1/search", body, "application/json"))
            until(lambda: len(reads) == 1)
        shop.settle()
        go_on.set()
        monkeypatch.undo()
        found = shop.client.post("/v1/search", content=body, headers={"content-type": "application/json"})
        hits = found.json()["hits"]
    assert [hit["sides"]["text"] for hit in hits] == pytest.approx([hit["score"] for hit in hits])
    assert len(hits) == len(BOXES)
    assert len(reads) == 1


def test_nothing_is_encoded_for_those_who_left(small: House, door: Door) -> None:
    with ThreadPoolExecutor(4) as people, door:
        first = people.submit(ask, small, "red")
        wait_for(door.entered, "the first question to be read")
        body = json.dumps({"text": "nobody waits for this"}).encode()
        port = httpx.URL(small.url).port
        assert port is not None
        for _ in range(5):  # more than the queue holds
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.sendall(post_request("/v1/search", body, "application/json"))
                until(lambda: waiting(small) == 1)
            until(lambda: waiting(small) == 0)
        stays = people.submit(ask, small, "somebody waits for this")
        until(lambda: waiting(small) == 1)
        door.open.set()
        assert first.result().status_code == 200
        assert stays.result().status_code == 200
    assert "somebody waits for this" in door.read
    assert "nobody waits for this" not in door.read


def test_stopping_finishes_what_was_accepted(tmp_path: Path, bundle: Path, monkeypatch: Any) -> None:  # noqa: ANN401
    with house(tmp_path, bundle) as shop:
        shop.client.put("/v1/items/a", files={"texts": (None, "a red box")})
        shop.settle()
        door = Door(monkeypatch)
        with ThreadPoolExecutor(4) as people:
            accepted = [people.submit(ask, shop, f"red {number}") for number in range(4)]
            until(lambda: len(shop.server.server_state.tasks) == 4)
            shop.server.should_exit = True
            until(lambda: not shop.server.servers or not shop.server.servers[0].sockets)
            door.open.set()
            assert [one.result().status_code for one in accepted] == [200] * 4


def test_a_client_that_hangs_up_in_the_middle_of_its_body_harms_nobody(shop: House) -> None:
    url = httpx.URL(shop.url)
    line = http.client.HTTPConnection(url.host, url.port)
    line.putrequest("POST", "/v1/search")
    line.putheader("content-type", "application/json")
    line.putheader("content-length", "1000")
    line.endheaders(b'{"text":')
    line.close()
    assert shop.best(text="a red box") == "red-box"
