"""Several services on one database: what one writes, the others find. And what is opened is closed."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.runtime.collections import open_collections
from app.runtime.jobs import POLL_SECONDS
from app.settings import Settings
from index.collection import Collection
from multifold.bundle.canary import CANARY_FILE
from tests.app.answers import refused
from tests.app.house import House, house
from tests.files import sign_file
from tests.index.servers import BACKENDS, Server
from tests.waiting import until


@pytest.fixture
def replicas(server: Server, tmp_path: Path, bundle: Path) -> Iterator[tuple[House, House]]:
    """Two services that share a database, and a folder for the pictures."""
    place = server.place()
    with (
        house(tmp_path, bundle, database=place) as one,
        house(tmp_path, bundle, database=place) as other,
    ):
        yield one, other


def test_what_one_writes_the_other_finds(replicas: tuple[House, House], server: Server) -> None:
    one, other = replicas
    assert str(server.folder) not in one.client.get("/v1/info").text + repr(one.service.settings)
    one.put("red-box", "red")
    other.put("blue-box", "blue")
    for service in replicas:
        assert service.best(text="a red box", target="text") == "red-box"
        assert service.best(text="a blue box", target="text") == "blue-box"
    hit = other.search(text="a red box", target="shape").json()["hits"][0]
    assert other.client.get(hit["matched"]["url"]).status_code == 200
    assert other.client.delete("/v1/items/red-box").json() == {"removed": 1}
    assert [hit["id"] for hit in one.search(text="a red box", target="text").json()["hits"]] == ["blue-box"]


def test_both_write_at_once(replicas: tuple[House, House]) -> None:
    def write(number: int) -> int:
        texts = {"texts": (None, f"box number {number}")}
        return replicas[number % 2].client.put(f"/v1/items/{number}", files=texts).status_code

    with ThreadPoolExecutor(4) as writers:
        assert set(writers.map(write, range(20))) == {200}
    for service in replicas:
        assert service.client.post("/v1/items/count", json={}).json()["count"] == 20
        assert len(service.search(text="box", target="text", limit=50).json()["hits"]) == 20


def test_many_collections_share_few_connections(server: Server, tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, database=server.place(), connections=4) as one:
        names = [f"shop-{n}" for n in range(6)]
        for name in names:
            assert one.client.post("/v1/collections", json={"name": name}).status_code == 201
            texts = {"texts": (None, f"a box of {name}")}
            assert one.client.put(f"/v1/collections/{name}/items/a", files=texts).status_code == 200

        def search(name: str) -> int:
            asked = {"text": "box", "target": "text"}
            found = one.client.post(f"/v1/collections/{name}/search", json=asked)
            assert [hit["id"] for hit in found.json()["hits"]] == ["a"]
            with one.service.collection._store.moment() as now:
                return int(now.scalar(BACKENDS) or 0)

        with ThreadPoolExecutor(6) as threads:
            assert max(threads.map(search, names * 4)) <= 4


def test_a_replica_without_its_database_is_ready_and_says_so(
    server: Server, tmp_path: Path, bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with house(tmp_path, bundle, database=server.place()) as one:
        one.put("red-box", "red")
        assert one.client.get("/readyz").json() == {"status": "ok"}
        server.stop()
        try:
            for _ in range(2):
                response = one.client.get("/readyz")
                assert (response.status_code, response.json()) == (200, {"status": "store_away"})
            answer = one.search(text="a red box")
            refused(answer, 503, "storage")
            assert answer.headers["retry-after"] == "1"
            for secret in (str(server.folder), "shop_", "us@", "postgres"):
                assert secret not in answer.text
            time.sleep(3 * POLL_SECONDS)
            assert len([line for line in caplog.messages if "database" in line]) == 1
            assert "Traceback" not in caplog.text
            (bundle / CANARY_FILE).rename(bundle / "kept")
            try:
                assert one.client.get("/readyz").status_code == 503  # this process is not well itself
            finally:
                (bundle / "kept").rename(bundle / CANARY_FILE)
        finally:
            server.start()
        assert one.client.get("/readyz").json() == {"status": "ok"}


def test_a_collection_that_is_opened_while_all_are_closed_is_closed_too(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = threading.Event()
    going_on = threading.Event()
    plain = Collection.open

    def open_slowly(*where: Any, **how: Any) -> Collection:  # noqa: ANN401 (what the plain one takes)
        opening.set()
        going_on.wait(60)
        return plain(*where, **how)

    with ThreadPoolExecutor(2) as threads:
        stack = ExitStack()
        shelf = stack.enter_context(open_collections(Settings(data=tmp_path, bundle=bundle)))
        monkeypatch.setattr(Collection, "open", open_slowly)
        made = threads.submit(shelf.create, "late", None, None)
        assert opening.wait(60)
        closed = threads.submit(stack.close)
        wait([closed], timeout=0.5)
        going_on.set()
        late = made.result()
        closed.result()
    plain(late.home, shelf.encoders.first).close()  # nobody holds it for writing


def test_texts_in_photos_are_found(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, photo_texts="auto") as ours:
        ours.fill("red", "blue")
        sign = {"images": ("sign.png", sign_file("Visitor Centre", "Harbour 12"))}
        assert ours.client.put("/v1/items/sign", files=sign).is_success
        until(lambda: ours.client.get("/v1/info").json()["collection"]["photos_to_read"] == 0)
        (first, *_) = ours.search(text="the visitor centre at the harbour", target="item").json()["hits"]
        assert first["id"] == "sign"
        assert max(first["evidence"], key=lambda one: one["value"])["leg"] == "writing"
    with house(tmp_path, bundle) as ours:
        assert ours.client.get("/v1/info").json()["collection"]["photos_to_read"] is None
