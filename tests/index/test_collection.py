"""Collections: what comes in comes back, and what is found is what brute force finds."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.contracts import IndexPlan, QueryError
from index.engines.exact_engine import ExactEngine
from index.store import browse
from index.store.database import StoreError
from index.store.filters import parse_filter
from index.store.folder_locks import LockError, writer_of
from index.store.metadata import ForeignStoreError
from index.store.schema import VERSION
from multifold.types import Item
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import answers, brute, caption, feature, query, same, thing, view


def test_items_come_back_and_versions_rise_with_every_change(collection: Collection) -> None:
    assert collection.search(query(feature(1))) == []
    assert collection.upsert([]) == collection.version == collection.delete(["a", "\ud800"]) == 0
    seen = (view(0, feature(1)), caption(0, feature(0, 1), "ein Stuhl, 椅子"), view(3, feature(0.1, 1e-30)))
    chair = Item("chair/1 ☃", seen, {"price": 3.5, "tags": ["a", None], "deep": {"x": [1]}})
    assert collection.upsert([chair, thing("b", np.random.default_rng(0))]) == 2
    assert same(collection.get("chair/1 ☃"), chair)
    assert collection.get("nothing") is collection.get("\ud800") is None
    assert collection.ids() == ["b", "chair/1 ☃"]
    assert collection.count() == 2
    assert collection.read(browse.count_observations) == {"caption": 2, "photo": 0, "view": 4}
    assert collection.upsert([chair]) == 3
    assert collection.delete(["b", "b", "nothing"]) == 1
    assert collection.delete(["b"]) == 0
    assert collection.version == 4


def test_the_observation_that_matched_is_named(collection: Collection) -> None:
    front, back = view(0, feature(1)), view(1, feature(0, 1))
    collection.upsert([Item("chair", (front, back, caption(0, feature(1), "a chair")), {"n": 1})])
    for pooled in ("mean", "max"):
        (hit,) = collection.search(query(feature(0.1, 1), pool=pooled))
        assert (hit.matched.kind, hit.matched.index, hit.matched.blob) == ("view", 1, back.blob)
        assert hit.matched.feature.tolist() == back.feature.tolist()
        assert (hit.id, hit.side, hit.payload) == ("chair", "shape", {"n": 1})
    (hit,) = collection.search(query(feature(1), target="text"))
    assert hit.matched.text == "a chair"
    assert collection.search(query(feature(1), target="image")) == []


def test_mean_pools_features_and_max_takes_the_best(collection: Collection) -> None:
    collection.upsert([Item("a", (view(0, feature(3)), view(1, feature(0, 1))))])
    # the mean of (3, 0) and (0, 1) is (1.5, 0.5): at unit length its first coordinate is 3/√10
    (mean,) = collection.search(query(feature(1)))
    (best,) = collection.search(query(feature(1), pool="max"))
    assert mean.score == pytest.approx(3 / np.sqrt(10), abs=1e-7)
    assert best.score == 1


def test_another_encoder_is_refused_by_name(tmp_path: Path, database: str | None) -> None:
    Collection.open(tmp_path, SPACE, database=database).close()
    other = replace(SPACE, vector_id="other")
    for read_only in (False, True):
        with pytest.raises(ForeignStoreError, match=r"'sphere'.*'other'"):
            Collection.open(tmp_path, other, read_only=read_only, database=database)
    Collection.open(tmp_path, SPACE, database=database).close()


def test_one_writer_many_readers(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    with Collection.open(tmp_path, SPACE, writer="http://127.0.0.1:8000") as collection:
        assert writer_of(tmp_path) == "http://127.0.0.1:8000"
        with pytest.raises(LockError, match="8000"):
            Collection.open(tmp_path, SPACE)
        with Collection.open(tmp_path, SPACE, read_only=True) as reader:
            with pytest.raises(CollectionError, match="reading only"):
                reader.upsert([thing("a", rng)])
            with pytest.raises(CollectionError, match="reading only"):
                reader.delete(["a"])
            collection.upsert([thing("a", rng)])
            assert [hit.id for hit in reader.search(query(feature(1)))] == ["a"]
            assert reader.version == collection.version


def test_reading_needs_a_collection(tmp_path: Path, database: str | None) -> None:
    with pytest.raises(StoreError, match="There is no collection"):
        Collection.open(tmp_path / "nowhere", SPACE, read_only=True, database=database)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_collection_says_so(tmp_path: Path, database: str | None) -> None:
    collection = Collection.open(tmp_path, SPACE, database=database)
    collection.close()
    collection.close()
    for use in (
        collection.count,
        lambda: collection.search(query(feature(1))),
        lambda: collection.upsert([]),
    ):
        with pytest.raises(CollectionError, match="closed"):
            use()


def test_the_store_is_as_promised(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing("a", rng), thing("b", rng)])
        collection.upsert([thing("a", rng, views=1, captions=0)])
        collection.delete(["b"])
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store:
        assert store.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        log = store.execute("SELECT sequence, action, item, replaced, replaced_size FROM changes").fetchall()
        items = store.execute("SELECT edition, id, generation, size FROM items").fetchall()
        rows = store.execute("SELECT row, edition, side, kind, ordinal FROM observations").fetchall()
        meta = dict(store.execute("SELECT key, value FROM meta"))
    assert log == [
        (1, "upsert", "a", None, None),
        (2, "upsert", "b", None, None),
        (3, "upsert", "a", 1, 3),
        (4, "delete", "b", 2, 3),
    ]
    assert items == [(3, "a", 2, 1)]
    assert rows == [(3 << 20, 3, "shape", "view", 0)]
    assert len(meta.pop("session")) == len(meta.pop("collection")) == 32
    assert meta == {
        "schema": str(VERSION),
        "vector_id": "sphere",
        "feature_length": str(FEATURE),
    }


def test_a_newer_store_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    Collection.open(tmp_path, SPACE).close()
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
        store.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(ForeignStoreError, match="schema 99"):
        Collection.open(tmp_path, SPACE)
    (tmp_path / "store.sqlite").write_bytes(json.dumps({"not": "a database"}).encode() * 100)
    for _ in range(2):  # the lock was given back
        with pytest.raises(StoreError, match="not a database"):
            Collection.open(tmp_path, SPACE)


def test_engines_that_fail_halfway_are_rebuilt(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    collection.upsert([thing(name, rng) for name in "abc"])
    changed = thing("b", rng)
    add, calls = ExactEngine.add, []

    def fail_once(self: ExactEngine, *rows: np.ndarray) -> None:
        calls.append(rows)
        if len(calls) == 2:
            raise MemoryError
        add(self, *rows)

    monkeypatch.setattr(ExactEngine, "add", fail_once)
    with pytest.raises(MemoryError):
        collection.upsert([changed])
    items = [item for name in "acb" if (item := collection.get(name))]
    assert same(items[-1], changed)  # durable before the engines failed
    for pooled in ("mean", "max"):
        asked = query(feature(1), pool=pooled)
        assert answers(collection.search(asked)) == brute(items, SPACE, asked)


def test_many_queries_are_answered_as_each_alone(collection: Collection) -> None:
    rng = np.random.default_rng(3)
    collection.upsert([thing(f"{n}", rng, captions=n % 2) for n in range(20)])
    where = parse_filter({"name": {"in": ["1", "2"]}})
    asks = [
        query(feature(1), limit=3),
        query(feature(0, 1), target="any", pool="max", offset=2),
        query(feature(0, 0, 1), target="item", text="13", exact=True),
        query(feature(1, 1), where=where),
        query(feature(1), target="image"),
    ]
    together = collection.search_many(asks)
    for ask, hits in zip(asks, together, strict=True):
        alone = collection.search(ask)
        assert answers(hits) == answers(alone)
        assert [(hit.words, hit.confidence) for hit in hits] == [(hit.words, hit.confidence) for hit in alone]
    assert [len(hits) for hits in together] == [3, 10, 10, 2, 0]
    with pytest.raises(QueryError):
        collection.search_many([asks[0], query([1.0])])
    assert collection.search_many([]) == []


def test_a_collection_asks_for_its_index(tmp_path: Path) -> None:
    plan = IndexPlan("IVF{cells},Flat", "cpu", 0.9)
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        collection.ask_for(plan)
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.plan == plan
    with Collection.open(tmp_path, SPACE, plan=IndexPlan("exact")) as collection:
        assert collection.plan == IndexPlan("exact")
