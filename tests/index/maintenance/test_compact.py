"""The log may be pruned, and what nobody needs is cleared away."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import CollectionLocation
from index.engine_set import engine_set
from index.maintenance.compact import compact_collection
from index.store.database import StoreError
from index.store.folder_locks import LockError, keep_blobs
from index.store.store import Store
from multifold.types import Item
from tests.index.shots import chair, equal, held
from tests.index.spaces import SPACE
from tests.index.things import answers, brute, feature, query, thing

ASKED = query(feature(1, 0.3), limit=50)


def changed(collection: Collection, count: int = 30) -> list[Item]:
    """Items in the order of their last writes, some replaced and some gone."""
    rng = np.random.default_rng(3)
    items = [thing(f"item {n}", rng) for n in range(count)]
    collection.upsert(items)
    collection.delete(["item 1", "item 2"])
    again = [thing(f"item {n}", rng) for n in range(5, 9)]
    collection.upsert(again)
    gone = {"item 1", "item 2", *(item.id for item in again)}
    return [*(item for item in items if item.id not in gone), *again]


def store_of(folder: Path) -> closing[Store]:
    return closing(Store(folder / "store.sqlite", None))


def test_a_pruned_log_ends_where_it_should(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection, store_of(tmp_path) as store:
        changed(collection)
        assert store.prune(10) == 26
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as raw:
            log = raw.execute("SELECT sequence FROM changes ORDER BY sequence").fetchall()
        assert log == [(number,) for number in range(27, 37)]
        assert store.prune(10) == store.prune(50) == 0
        reached = [store.reaches(number) for number in (-1, 25, 26, 36, 37)]
        assert reached == [False, False, True, True, False]
        assert store.prune(0) == 10
        assert collection.upsert([thing("new", np.random.default_rng(0))]) == 37


@pytest.mark.parametrize("kept", [0, 3, 100])
def test_a_reader_that_the_log_left_behind_starts_afresh(tmp_path: Path, kept: int) -> None:
    with Collection.open(tmp_path, SPACE) as writer:
        writer.upsert([thing(f"item {n}", np.random.default_rng(n)) for n in range(10)])
        with Collection.open(tmp_path, SPACE, read_only=True) as reader:
            assert len(reader.search(ASKED)) == 10
            items = changed(writer)
            with store_of(tmp_path) as store:
                store.prune(kept)
            assert answers(reader.search(ASKED)) == brute(items, SPACE, ASKED)
            assert reader.version == writer.version


def test_a_saved_index_that_the_log_left_behind_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"item {n}", np.random.default_rng(n)) for n in range(10)])
    monkeypatch.setattr(engine_set.EngineSet, "save", lambda *_: None)  # as if killed
    with Collection.open(tmp_path, SPACE) as collection:
        items = changed(collection)
    compact_collection(CollectionLocation(tmp_path), kept=2)
    with Collection.open(tmp_path, SPACE) as collection:
        assert answers(collection.search(ASKED)) == brute(items, SPACE, ASKED)


def test_compaction_clears_what_nobody_needs(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        kept, rng = chair(collection), np.random.default_rng(0)
        collection.upsert([kept, *(thing(f"item {n}", rng, views=90) for n in range(60))])
        lost = collection.blobs.put(b"nobody's")
        collection.delete([f"item {n}" for n in range(60)])
        version = collection.version
    done = compact_collection(CollectionLocation(tmp_path), kept=5)
    assert (done.changes, done.blobs) == (116, 1)
    assert done.bytes > 200_000
    with Collection.open(tmp_path, SPACE) as collection:
        assert equal(held(collection), {"chair": kept})
        assert collection.version == version
        assert not collection.blobs.exists(lost)
        assert collection.blobs.get(str(kept.observations[0].blob)) == b"a picture"


def test_compaction_keeps_the_saved_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    with Collection.open(tmp_path, SPACE) as collection:
        items = changed(collection)
    compact_collection(CollectionLocation(tmp_path))
    monkeypatch.setattr(engine_set, "derive_usable_rows", lambda *_: pytest.fail("derived anew"))
    with Collection.open(tmp_path, SPACE) as collection:
        assert answers(collection.search(ASKED)) == brute(items, SPACE, ASKED)


def test_compaction_needs_the_collection_to_itself(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no collection"):
        compact_collection(CollectionLocation(tmp_path / "nowhere"))
    with Collection.open(tmp_path, SPACE, writer="http://here:1"), pytest.raises(LockError, match="here:1"):
        compact_collection(CollectionLocation(tmp_path))
    with keep_blobs(tmp_path), pytest.raises(LockError, match="snapshot"):
        compact_collection(CollectionLocation(tmp_path))
    compact_collection(CollectionLocation(tmp_path))
