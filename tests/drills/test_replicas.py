"""Replicas on one PostgreSQL: the database, a replica that sleeps, Milvus, and many collections."""

import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from multifold.client import Client
from tests.app.process import serve
from tests.docker.test_proxy import nginx
from tests.drills.traffic import Traffic
from tests.index.clusters import MilvusServer
from tests.index.servers import Server
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


def test_the_database_dies_and_a_replica_sleeps(tmp_path: Path, bundle: Path, server: Server) -> None:
    place = server.place()
    with (
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place) as one,
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as url,
    ):
        with Traffic(url) as traffic:
            server.stop()
            server.start()
            traffic.more()
            traffic.passed("PostgreSQL ends at once, and is started again")
        with Traffic(str(second.base_url)) as traffic:
            one.process.send_signal(signal.SIGSTOP)
            traffic.more(20)
            one.process.send_signal(signal.SIGCONT)
            traffic.passed(
                "a replica sleeps while the other one writes, and is asked next", str(first.base_url)
            )
            with Client(str(first.base_url)) as client:
                hit = client.search(text="a red box", target="text", limit=1).hits[0]
            assert hit.payload["edition"] == traffic.acknowledged[hit.id]


def test_milvus_dies_and_is_started_again(
    tmp_path: Path, bundle: Path, server: Server, milvus: MilvusServer
) -> None:
    place, uri = server.place(), milvus.cluster.uri
    with (
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as one,
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as other,
        one.client() as first,
        other.client() as second,
        nginx(tmp_path, *(f"{c.base_url.host}:{c.base_url.port}" for c in (first, second))) as url,
        Traffic(url) as traffic,
    ):
        milvus.kill()
        known = sum(traffic.acknowledged.values())
        until(lambda: traffic.refusals["index_away"] > 3)
        until(lambda: sum(traffic.acknowledged.values()) > known + 5)  # changes go on
        milvus.start()
        traffic.more()
        assert set(traffic.refusals) == {"index_away"}
        traffic.passed("Milvus ends at once, and is started again")


MANY = 200 if os.environ.get("MULTIFOLD_DRILLS") else 40  # collections
REPLICAS, CONNECTIONS = 3, 60


def test_many_collections_on_few_connections(tmp_path: Path, bundle: Path) -> None:
    """Every replica has all of them open and is asked by many; others reach the database all the time."""
    server, most = Server(), [0]
    try:
        server.query(f"ALTER SYSTEM SET max_connections = {CONNECTIONS}")
        server.stop(signal.SIGINT)
        server.start()
        place, over = server.place(), threading.Event()

        def watch() -> None:
            while not over.wait(0.1):
                most[0] = max(most[0], int(server.query("SELECT count(*) FROM pg_stat_activity")))

        with ExitStack() as stack:
            clients = [
                stack.enter_context(
                    stack.enter_context(serve(tmp_path, bundle, MULTIFOLD_DATABASE=place)).client()
                )
                for _ in range(REPLICAS)
            ]
            watcher = stack.enter_context(ThreadPoolExecutor(1)).submit(watch)
            stack.callback(over.set)

            def fill(number: int) -> None:
                client, name = clients[number % REPLICAS], f"shop-{number}"
                assert client.post("/v1/collections", json={"name": name}).status_code == 201
                texts = {"texts": (None, f"a box of {name}")}
                assert client.put(f"/v1/collections/{name}/items/{name}", files=texts).status_code == 200

            def ask(number: int) -> None:
                for client in clients:
                    path, asked = f"/v1/collections/shop-{number}/search", {"text": "a box", "target": "text"}
                    hits = client.post(path, json=asked).json()["hits"]
                    assert [hit["id"] for hit in hits] == [f"shop-{number}"]

            with ThreadPoolExecutor(12) as threads:
                list(threads.map(fill, range(MANY)))
                list(threads.map(ask, [*range(MANY)] * 2))
            over.set()
            watcher.result()
    finally:
        server.remove()
    assert most[0] <= CONNECTIONS
    if table := os.environ.get("MULTIFOLD_DRILLS"):
        with open(Path(table), "a", encoding="utf-8") as out:
            out.write(f"{MANY} collections on {REPLICAS} replicas: {most[0]} connections at most\n")
