"""Searches beside writes: every answer is of one version, and nobody starves."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.search.engine_set import ReadWriteGate
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Pooling
from tests.index.spaces import SPACE
from tests.index.things import query
from tests.waiting import PATIENCE, until

ITEMS = 8
SEARCHES = 12
EDITIONS = 12


def edition(name: int, version: int) -> Item:
    """An item all of whose parts name its version."""
    angle = name + 0.01 * version
    seen = np.array([np.cos(angle), np.sin(angle), 0, 0], np.float32)
    told = (Observation("view", n, seen, text=str(version)) for n in range(1 + version % 4))
    return Item(f"item {name}", tuple(told), {"version": version, "feature": seen.tolist()})


@pytest.mark.parametrize("readers", ["threads of the writer", "another opening"])
def test_searches_beside_writes_see_whole_items(tmp_path: Path, readers: str) -> None:
    writer = Collection.open(tmp_path, SPACE)
    writer.upsert([edition(name, 0) for name in range(ITEMS)])
    apart = readers == "another opening"
    reader = Collection.open(tmp_path, SPACE, read_only=True) if apart else writer

    def write() -> None:
        for version in range(1, EDITIONS):
            writer.upsert([edition(name, version) for name in range(ITEMS)])

    def search(number: int) -> None:
        pooled: Pooling = "mean" if number % 2 else "max"
        vector = np.array([np.cos(number), np.sin(number), 0, 0], np.float32)
        where = parse_filter({"version": {"gte": 0}}) if number % 3 else None
        hits = reader.search(query(vector, limit=ITEMS, pool=pooled, where=where))
        assert len({hit.id for hit in hits}) == ITEMS  # each item exists at every moment
        assert len({hit.payload["version"] for hit in hits}) == 1  # and a call changes all of them at once
        for hit in hits:
            seen = np.array(hit.payload["feature"], np.float32)
            assert hit.matched.text == str(hit.payload["version"])
            assert hit.score == pytest.approx(float(seen @ vector), abs=1e-6)

    with ThreadPoolExecutor(4) as pool:
        changes = pool.submit(write)
        while not changes.done():
            list(pool.map(search, range(SEARCHES)))
        changes.result()
    reader.close()
    writer.close()


def test_writes_of_many_threads_all_arrive(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection, ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda name: collection.upsert([edition(name, 1)]), range(20)))
        assert sorted(versions) == list(range(1, 21))
        assert collection.count() == 20


def test_the_gate_lets_readers_in_together_and_writers_in_alone() -> None:
    gate, together, order = ReadWriteGate(), threading.Barrier(2, timeout=PATIENCE), []

    def read() -> None:
        with gate.reading():
            together.wait()  # would time out if one kept the other out

    def write() -> None:
        with gate.writing():
            order.append("in")
            time.sleep(0.002)
            order.append("out")

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(read) for _ in range(2)]:
            job.result()
        for job in [pool.submit(write) for _ in range(8)]:
            job.result()
    assert order == ["in", "out"] * 8


def test_a_waiting_writer_goes_before_new_readers() -> None:
    gate, order = ReadWriteGate(), []

    def enter(name: str) -> None:
        with gate.writing() if name == "writer" else gate.reading():
            order.append(name)

    with ThreadPoolExecutor(2) as pool:
        with gate.reading():
            writer = pool.submit(enter, "writer")
            until(lambda: gate._writers)
            reader = pool.submit(enter, "reader")
            time.sleep(0.02)
            assert order == []
        writer.result()
        reader.result()
    assert order == ["writer", "reader"]
