"""Engines of a collection: searches that no crowd spoils, beside writes, each of one version."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.contracts import IndexPlan
from index.engine_set.engine_set import ReadWriteGate
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Pooling
from tests.index.filtering import lets_through
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import query
from tests.waiting import PATIENCE

CROWD = 300


def crowded(rng: np.random.Generator, count: int) -> list[Item]:
    """Items of one to hundreds of observations; the largest crowds lie nearest to where the queries are."""
    items = []
    for name in range(count):
        size = CROWD // (name + 1) + 1
        near = np.eye(FEATURE)[0] + 0.1 * name * rng.standard_normal((size, FEATURE))
        seen = [Observation("view", n, row) for n, row in enumerate(near.astype(np.float32))]
        items.append(Item(f"i{name}", tuple(seen), {"n": name, "odd": name % 2 == 1}))
    return items


@pytest.mark.parametrize("type", ["exact", "HNSW8,SQ8", "IVF{cells},SQ8"])
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    where=st.sampled_from([None, {}, {"odd": True}, {"n": {"gte": 20}}, {"n": 3}, {"n": {"in": [0, 39]}}]),
)
@settings(max_examples=5, deadline=None)
def test_no_crowd_keeps_an_item_out(
    tmp_path_factory: pytest.TempPathFactory,
    type: str,  # noqa: A002
    seed: int,
    count: int,
    where: Any,  # noqa: ANN401
) -> None:
    plan = IndexPlan(type, "cpu", 0.9, seal_at=100, flat_below=0)
    with Collection.open(tmp_path_factory.mktemp("crowded"), SPACE, plan=plan) as collection:
        items = crowded(np.random.default_rng(seed), count)
        collection.upsert(items)
        collection.delete([item.id for item in items[: count // 3 : 2]])
        left = [item for item in items if item.id in set(collection.ids())]
        passing = {item.id for item in left if lets_through(where or {}, item.payload)}
        for limit in (1, 5, 39, 100):
            chosen = None if where is None else parse_filter(where)
            hits = collection.search(query(np.eye(FEATURE)[0], limit=limit, pool="max", where=chosen))
            assert len({hit.id for hit in hits}) == len(hits) == min(limit, len(passing))
            assert {hit.id for hit in hits} <= passing
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


ITEMS, SEARCHES, EDITIONS = 8, 12, 12


def edition(name: int, version: int) -> Item:
    """An item all of whose parts name its version."""
    angle = name + 0.01 * version
    seen = np.array([np.cos(angle), np.sin(angle), 0, 0], np.float32)
    told = (Observation("view", n, seen, text=str(version)) for n in range(1 + version % 4))
    return Item(f"item {name}", tuple(told), {"version": version, "feature": seen.tolist()})


@pytest.mark.parametrize("apart", [False, True], ids=["threads of the writer", "another opening"])
def test_searches_beside_writes_see_whole_items(tmp_path: Path, apart: bool) -> None:
    writer = Collection.open(tmp_path, SPACE)
    writer.upsert([edition(name, 0) for name in range(ITEMS)])
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
        for job in [*(pool.submit(read) for _ in range(2)), *(pool.submit(write) for _ in range(8))]:
            job.result()
    assert order == ["in", "out"] * 8


def test_a_waiting_writer_goes_before_new_readers() -> None:
    gate, order = ReadWriteGate(), list[str]()

    def enter(name: str) -> None:
        with gate.writing() if name == "writer" else gate.reading():
            order.append(name)

    readers = list[Future[None]]()
    with ThreadPoolExecutor(2) as pool:
        with gate.reading():
            writer = pool.submit(enter, "writer")
            while not readers or not wait(readers[-1:], 0.02).not_done:  # until the writer keeps one out
                readers.append(pool.submit(enter, f"reader {len(readers)}"))
        for job in (writer, *readers):
            job.result()
    assert order[-2:] == ["writer", f"reader {len(readers) - 1}"]
