"""Replicas on one PostgreSQL and one Milvus, while two clients write without a rest.

With MULTIFOLD_DRILLS=FILE it takes minutes, and writes the rates of searches there.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from multifold.client import Client
from multifold.wire.items import NewItem
from tests.app.process import Process, serve
from tests.drills.traffic import Traffic
from tests.index.clusters import MilvusServer
from tests.index.servers import Server
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

TABLE = os.environ.get("MULTIFOLD_DRILLS")
ITEMS, SECONDS, REWRITTEN = (20_000, 60.0, 50) if TABLE else (200, 3.0, 10)
ITEMS_A_REQUEST = 100
SEARCHES = {"captions": {"target": "text", "lexical": "off"}, "all evidence": {}}
WORDS = ("red", "blue", "green", "small", "large", "old", "wooden", "metal", "white", "black", "low", "chair")


@pytest.fixture
def replicas(tmp_path: Path, bundle: Path, server: Server, milvus: MilvusServer) -> Iterator[list[Process]]:
    place, uri = server.place(), milvus.cluster.uri
    with (
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as one,
        serve(tmp_path, bundle, MULTIFOLD_DATABASE=place, MULTIFOLD_MILVUS=uri) as other,
    ):
        yield [one, other]


def address(process: Process) -> str:
    with process.client() as client:
        return str(client.base_url)


def sentence(rng: np.random.Generator) -> str:
    """Words that were hardly ever together before."""
    return " ".join([*rng.choice(WORDS, 4, replace=False), str(rng.integers(10**6))])


def search_for(url: str, seconds: float, how: dict[str, str]) -> list[float]:
    """How long each search took that one client asked, one after the other."""
    rng, took, end = np.random.default_rng(7), list[float](), time.monotonic() + seconds
    with Client(url, timeout=PATIENCE) as client:
        while (begun := time.monotonic()) < end:
            assert client.search(text=sentence(rng), limit=10, **how).hits  # type: ignore[arg-type]
            took.append(time.monotonic() - begun)
    return took


@contextmanager
def writers(urls: list[str]) -> Iterator[dict[str, int]]:
    """A client of each service that writes without a rest; the number of its last acknowledged write."""
    over, written = threading.Event(), dict[str, int]()

    def write(url: str, name: str) -> None:
        rng = np.random.default_rng(len(name))
        with Client(url, timeout=PATIENCE) as client:
            for number in range(10**9):
                if over.is_set():
                    return
                item = f"{name}{number % REWRITTEN}"
                client.upsert(item, texts=[sentence(rng), sentence(rng)], payload={"number": number})
                written[name] = number

    with ThreadPoolExecutor(len(urls)) as threads:
        working = [threads.submit(write, url, name) for url, name in zip(urls, ("a", "bb"), strict=True)]
        try:
            until(lambda: len(written) == len(urls) or any(one.done() for one in working))
            yield written
        finally:
            over.set()
        for one in working:
            one.result()


def note(what: str, took: list[float], written: int) -> None:
    """A line of the table in docs/benchmarks/cluster.md."""
    if TABLE:
        each = 1000 * np.quantile(took, [0.5, 0.95, 1.0])
        cells = [
            f"{len(took) / SECONDS:.1f}",
            *(f"{value:.0f}" for value in each),
            f"{written / SECONDS:.1f}",
        ]
        with open(TABLE, "a", encoding="utf-8") as out:
            out.write(f"| {what} | {' | '.join(cells)} |\n")


def test_searches_go_on_while_two_clients_write(replicas: list[Process]) -> None:
    urls, rng = [address(one) for one in replicas], np.random.default_rng(1)
    with Client(urls[0], timeout=PATIENCE) as client:
        for start in range(0, ITEMS, ITEMS_A_REQUEST):
            names = range(start, start + ITEMS_A_REQUEST)
            texts = [[sentence(rng), sentence(rng)] for _ in names]
            answer = client.upsert_many(
                [NewItem(f"i{name}", texts=own) for name, own in zip(names, texts, strict=True)]
            )
            assert answer.written == ITEMS_A_REQUEST
    for url in urls:
        with Client(url, timeout=PATIENCE) as client:
            until(lambda: client.info()["collection"]["version"] >= ITEMS)
            if TABLE:  # a fit takes a core
                until(lambda: client.info()["bundle"]["calibrated_by"] == "collection", 600)
    for what, how in SEARCHES.items():
        note(f"{what}, nobody writes", search_for(urls[1], SECONDS, how), 0)
    for what, how in SEARCHES.items():
        with writers(urls) as written:
            before = sum(written.values())
            note(f"{what}, two write", search_for(urls[1], SECONDS, how), sum(written.values()) - before)
        for url in urls:
            with Client(url, timeout=PATIENCE) as client:
                for name, number in written.items():
                    item = client.get(f"{name}{number % REWRITTEN}")
                    assert item.payload["number"] == number
                    (caption, *_) = (one.text for one in item.observations)
                    found = client.search(text=caption, consistency="strong").hits
                    assert item.id in [hit.id for hit in found]


def test_who_feeds_is_killed(replicas: list[Process]) -> None:
    """What it acknowledged is found by the other one, which feeds from now on."""
    urls = [address(one) for one in replicas]
    with Client(urls[0], timeout=PATIENCE) as first, Client(urls[1], timeout=PATIENCE) as second:
        with Traffic(urls[1]) as traffic:
            for number in range(20):
                first.upsert("mine", texts=[f"a blue lamp {number}"], payload={"number": number})
            replicas[0].process.kill()
            traffic.more()
            traffic.passed("a replica that feeds Milvus is killed")
            assert not traffic.refusals

        def found() -> list[object]:
            hits = second.search(text="a blue lamp 19", target="text", limit=1).hits
            return [(hit.id, hit.payload["number"]) for hit in hits]

        until(lambda: found() == [("mine", 19)])
        assert second.search(text="a blue lamp 19", consistency="strong").hits[0].payload == {"number": 19}
