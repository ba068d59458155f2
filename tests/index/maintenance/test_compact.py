"""The log may be pruned, what nobody needs is cleared away, and what is wrong is found."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import CollectionLocation, IndexPlan
from index.maintenance.compact import compact_collection
from index.maintenance.verify import find_store_problems
from index.search import engine_set
from index.store.database import StoreError
from index.store.folder_locks import LockError, keep_blobs
from index.store.store import Store, open_blobs
from multifold.types import Item
from tests.index.shots import chair, equal, held
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import answers, brute, feature, query, thing


def log(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        return [row[0] for row in store.execute("SELECT sequence FROM changes ORDER BY sequence")]


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


def test_a_pruned_log_ends_where_it_should(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        changed(collection)
        assert collection._store.prune(10) == 26
        assert log(tmp_path) == list(range(27, 37))
        assert collection._store.prune(10) == collection._store.prune(50) == 0
        assert [collection._store.reaches(n) for n in (-1, 25, 26, 36, 37)] == [
            False,
            False,
            True,
            True,
            False,
        ]
        assert collection._store.prune(0) == 10
        assert collection.upsert([thing("new", np.random.default_rng(0))]) == 37


@pytest.mark.parametrize("kept", [0, 3, 100])
def test_a_reader_that_the_log_left_behind_starts_afresh(tmp_path: Path, kept: int) -> None:
    with Collection.open(tmp_path, SPACE) as writer:
        writer.upsert([thing(f"item {n}", np.random.default_rng(n)) for n in range(10)])
        with Collection.open(tmp_path, SPACE, read_only=True) as reader:
            assert len(reader.search(query(feature(1), limit=50))) == 10
            items = changed(writer)
            writer._store.prune(kept)
            for pooled in ("mean", "max"):
                asked = query(feature(1, 0.3), limit=50, pool=pooled)
                assert answers(reader.search(asked)) == brute(items, SPACE, asked)
            assert reader.version == writer.version


def test_a_saved_index_that_the_log_left_behind_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"item {n}", np.random.default_rng(n)) for n in range(10)])
    monkeypatch.setattr(engine_set.EngineSet, "save", lambda *_: None)  # as if killed
    with Collection.open(tmp_path, SPACE) as collection:
        items = changed(collection)
    compact_collection(CollectionLocation(tmp_path), kept=2)
    with Collection.open(tmp_path, SPACE) as collection:
        asked = query(feature(1), limit=50)
        assert answers(collection.search(asked)) == brute(items, SPACE, asked)


def test_compaction_clears_what_nobody_needs(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        kept = chair(collection)
        collection.upsert(
            [kept, *(thing(f"item {n}", np.random.default_rng(n), views=90) for n in range(60))]
        )
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
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    with Collection.open(tmp_path, SPACE) as collection:
        changed(collection)
    compact_collection(CollectionLocation(tmp_path))
    made: list[object] = []
    monkeypatch.setattr(engine_set, "derive_usable_rows", lambda *_: made.append(1) or [])  # type: ignore[func-returns-value]
    with Collection.open(tmp_path, SPACE) as collection:
        assert len(collection.search(query(feature(1), limit=50))) == 28
    assert made == []


def test_compaction_needs_the_collection_to_itself(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no collection"):
        compact_collection(CollectionLocation(tmp_path / "nowhere"))
    with Collection.open(tmp_path, SPACE, writer="http://here:1"), pytest.raises(LockError, match="here:1"):
        compact_collection(CollectionLocation(tmp_path))
    with keep_blobs(tmp_path), pytest.raises(LockError, match="snapshot"):
        compact_collection(CollectionLocation(tmp_path))
    compact_collection(CollectionLocation(tmp_path))


def wrong(folder: Path) -> list[str]:
    store = Store(folder / "store.sqlite", None, read_only=True)
    try:
        return list(find_store_problems(open_blobs(folder, None), store))
    finally:
        store.close()


def edit(script: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
            store.executescript(script)

    return harm


def harm_picture(folder: Path) -> None:
    (path,) = folder.glob("blobs/*/*")
    path.write_bytes(b"something else")


def lose_picture(folder: Path) -> None:
    (path,) = folder.glob("blobs/*/*")
    path.unlink()


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "an observation is lost": (edit("DELETE FROM observations WHERE kind = 'view'"), "should have 2 observ"),
    "an item is lost": (edit("DELETE FROM items WHERE id = 'chair'"), "belongs to nothing"),
    "a feature is cut": (edit("UPDATE observations SET feature = x'0000803f'"), "has a feature of 4 bytes"),
    "a feature is no number": (
        edit(f"UPDATE observations SET feature = x'{'0000c07f' * FEATURE}'"),
        "not finite",
    ),
    "the clock was turned back": (edit("UPDATE clock SET last = 3"), "clock stands at 3"),
    "a picture is damaged": (harm_picture, "is damaged"),
    "a picture is lost": (lose_picture, "no blob"),
}


@pytest.mark.parametrize(("harm", "reason"), HARMS.values(), ids=list(HARMS))
def test_what_is_wrong_is_found(
    collection: Collection, tmp_path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    collection.close()
    assert wrong(tmp_path / "things") == []
    harm(tmp_path / "things")
    found = wrong(tmp_path / "things")
    assert found
    assert any(reason in one for one in found)


def test_a_damaged_page_is_found(collection: Collection, tmp_path: Path) -> None:
    collection.close()
    path = tmp_path / "things" / "store.sqlite"
    raw = bytearray(path.read_bytes())
    place = raw.index(b"chair")
    raw[place - 40 : place] = os.urandom(40)
    path.write_bytes(raw)
    try:
        assert wrong(tmp_path / "things")
    except StoreError as error:  # so damaged that it cannot even be looked at
        assert "store.sqlite failed" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "plan", [IndexPlan("exact"), IndexPlan("HNSW8", "cpu", seal_at=40)], ids=lambda plan: plan.type
)
def test_indexes_that_disagree_are_found(tmp_path: Path, plan: IndexPlan) -> None:
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        changed(collection, 120)
        collection.engines.settle()
        assert collection.disagreements() == []
        (engine,) = [e for s, e in collection.engines.engines.items() if s == ("shape", "pooled")]
        (row,) = np.concatenate([block[0] for block in engine.blocks()])[:1]
        engine.remove(np.array([row]))
        assert [
            "shape pooled rows has 117 rows, and the store makes 118" in one
            for one in collection.disagreements()
        ] == [True]
        engine.add(np.array([row]), np.ones((1, FEATURE), np.float32))
        (told,) = collection.disagreements()
        assert f"another vector than the store for row {row}" in told


def test_a_collection_asks_for_its_index(tmp_path: Path) -> None:
    plan = IndexPlan("IVF{cells},Flat", "cpu", 0.9)
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        assert collection._store.plan() is None
        collection.ask_for(plan)
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.plan == plan
    with Collection.open(tmp_path, SPACE, plan=IndexPlan("exact")) as collection:
        assert collection.plan == IndexPlan("exact")
