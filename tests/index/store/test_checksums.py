"""Bits that flip in the store: what is damaged is named, and left out of answers."""

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import CollectionLocation, IndexPlan
from index.maintenance.archive import ArchiveError
from index.maintenance.compact import compact_collection
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import SnapshotReport, take_snapshot
from index.maintenance.verify import find_store_problems
from index.store.blobs import FolderBlobs
from index.store.browse import DAMAGED_ROW
from index.store.database import StoreError
from index.store.feedback import FeedbackQueryPart, Judgement, page_of_judgements
from index.store.item_rows import ItemError
from index.store.schema import tables
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.types import Item, Observation
from tests.index.processes import GOLDEN
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import feature, query, view

Harm: TypeAlias = Callable[[bytes], bytes | str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Items of two views each, of which the item `n` points to the axis n."""
    home = tmp_path / "home"
    with Collection.open(home, SPACE) as collection:
        collection.upsert([pointing(n) for n in range(3)])
    return home


def pointing(axis: int) -> Item:
    numbers = np.eye(FEATURE)[axis]
    turned = [0.1, *numbers[1:]] if axis else [1.0, 0.1, *numbers[2:]]
    return Item(f"item {axis}", (view(0, feature(*numbers)), view(1, feature(*turned))), {"n": axis})


def edit(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        store.executescript(script)


def damage(folder: Path, item: str, ordinal: int, harm: Harm) -> None:
    """Change the bytes of a stored feature, as a failing disk does."""
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        query = (
            "SELECT o.row, o.feature FROM observations o JOIN items i ON i.edition = o.edition"
            " WHERE i.id = ? AND o.ordinal = ?"
        )
        row, stored = store.execute(query, (item, ordinal)).fetchone()
        store.execute("UPDATE observations SET feature = ? WHERE row = ?", (harm(stored), row))


def flip_sign(stored: bytes) -> bytes:
    numbers = np.frombuffer(stored, "<f4").copy()
    numbers[np.abs(numbers).argmax()] *= -1
    return numbers.tobytes()


def make_nan(stored: bytes) -> bytes:
    return struct.pack("<f", float("nan")) + stored[4:]


HARMS: tuple[Harm, ...] = (flip_sign, make_nan, lambda stored: stored[:-3], lambda _: "text")


def problems(folder: Path) -> list[str]:
    with closing(Store(folder / "store.sqlite", None, read_only=True)) as store:
        every = find_store_problems(FolderBlobs(folder / "blobs"), store)
        return [one for one in every if not one.startswith("Picture")]  # none are stored here


@pytest.mark.parametrize("harm", HARMS, ids=["sign", "none", "cut", "text"])
def test_a_damaged_observation_is_named_and_left_out(
    folder: Path, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    assert problems(folder) == []
    damage(folder, "item 1", 0, harm)
    assert "Item 'item 1': view 0 is damaged: its feature is not what was written." in problems(folder)
    with Collection.open(folder, SPACE) as collection:
        assert "Item 'item 1': view 0 is damaged: its feature is not what was written" in caplog.text
        hits = {pool: collection.search(query(feature(0, 1), pool=pool)) for pool in ("mean", "max")}
        assert all(some[0].id == "item 1" for some in hits.values())
        assert all(np.isfinite(hit.score) for some in hits.values() for hit in some)
        assert hits["max"][0].matched.index == 1  # by its other view
        item = collection.get("item 1")
        assert item is not None
        assert [one.index for one in item.observations] == [1]
        assert [one.index for one in item.damaged] == [0]
        with pytest.raises(ItemError, match="view 0 is damaged"):
            collection.upsert([item])
        assert collection.disagreements() == []
    damage(folder, "item 1", 1, harm)
    with Collection.open(folder, SPACE) as collection:  # an item of damage alone is no answer
        assert {hit.id for hit in collection.search(query(feature(0, 1)))} == {"item 0", "item 2"}
        collection.upsert([pointing(1)])
        assert collection.search(query(feature(0, 1)))[0].id == "item 1"


def test_a_row_that_names_something_else_is_damaged(folder: Path) -> None:
    edit(folder, "UPDATE observations SET side = 'imbge' WHERE ordinal = 1")
    with Collection.open(folder, SPACE) as collection:
        assert [hit.id for hit in collection.search(query(feature(0, 0, 1), limit=1))] == ["item 2"]
    assert len([one for one in problems(folder) if "view 1 is damaged: its row" in one]) == 3


def test_a_payload_that_is_not_what_was_written_is_no_answer_and_not_written_again(folder: Path) -> None:
    edit(folder, "UPDATE items SET payload = '{\"n\": 7' WHERE id = 'item 1'")
    assert problems(folder) == ["Item 'item 1': its payload or its list of files is not what was written."]
    with Collection.open(folder, SPACE) as collection:
        first = collection.search(query(feature(0, 1)))[0]
        assert (first.id, first.payload) == ("item 1", {})
        item = collection.get("item 1")
        assert item is not None
        assert (item.whole, item.payload, item.notes) == (False, {}, (DAMAGED_ROW,))
        with pytest.raises(ItemError, match="its payload or its list of files is damaged"):
            collection.upsert([item])
    with pytest.raises(StoreError, match=r"'item 1'.*so none is removed"):
        compact_collection(CollectionLocation(folder))


def flipped(value: object, place: int) -> object:
    """A value with another bit, which is still one of its kind."""
    if isinstance(value, int):
        return value ^ (1 << place % 8)
    if isinstance(value, float):
        return float(np.frombuffer((np.float64(value).view(np.int64) ^ (1 << place)).tobytes(), "<f8")[0])
    data = bytearray(value if isinstance(value, bytes) else str(value).encode())
    data[place % len(data)] ^= 1 << place % 5
    return bytes(data) if isinstance(value, bytes) else data.decode("latin-1")


# All but what a saved index alone goes by; that index is compared too.
COLUMNS = [
    (table.name, column.name)
    for table in tables.sorted_tables
    for column in table.columns
    if column.name != "replaced_size"
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with something in every column."""
    home = tmp_path_factory.mktemp("written")
    with Collection.open(home, SPACE) as collection:
        collection.upsert([pointing(n) for n in range(3)])
        said = Observation("caption", 0, feature(0, 1), "a red thing")
        seen = replace(view(2, feature(0, 1)), blob="0" * 64)
        told = Item("item 1", (said, seen), {"n": 1, "is": "red"}, files=("0" * 64,))
        collection.upsert([pointing(0), told])  # in place of the former
        part = FeedbackQueryPart("text", text="red")
        collection.judge(Judgement("0" * 32, "item 1", "good", "item", (part,), "ann", ("view", 0), 1.5))
    assert problems(home) == []
    return (home / "store.sqlite").read_bytes()


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_bit_that_flips_anywhere_is_told(written: bytes, tmp_path: Path, table: str, column: str) -> None:
    for place in (1, 2):
        (tmp_path / "store.sqlite").write_bytes(written)
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
            of_them = f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL"
            if table == "meta":
                of_them += " AND key IN ('schema', 'vector_id', 'feature_length')"
            rows = store.execute(of_them).fetchall()
            row, value = rows[place % len(rows)]
            try:
                change = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                store.execute(change, (flipped(value, 7 * place), row))
            except sqlite3.IntegrityError:
                continue  # the file itself would not hold together
        try:
            with Collection.open(tmp_path, SPACE) as collection:
                collection.search(query(feature(0, 1)))
                collection.scroll(limit=10)
                collection.read(page_of_judgements)
            found = problems(tmp_path)
        except MultifoldError as error:
            found = [str(error)]
        assert found, f"{value!r} became {flipped(value, 7 * place)!r}"


def snapshot(folder: Path, path: Path) -> SnapshotReport:
    with closing(Store(folder / "store.sqlite", None, read_only=True)) as store:
        return take_snapshot(store, FolderBlobs(folder / "blobs"), path)


def test_a_snapshot_says_what_is_damaged_and_no_more_is_restored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(folder, "item 2", 1, flip_sign)
    report = snapshot(folder, tmp_path / "one.tar")
    assert report.damaged == ("Item 'item 2': view 1 is damaged: its feature is not what was written",)
    assert b'"damaged": ["Item' in (tmp_path / "one.tar").read_bytes()
    restore_snapshot(tmp_path / "one.tar", tmp_path / "copy")
    assert len(problems(tmp_path / "copy")) == 1
    with monkeypatch.context() as unknown:
        unknown.setattr("index.maintenance.snapshot.find_damage", lambda _: iter(()))
        snapshot(folder, tmp_path / "two.tar")
    with pytest.raises(ArchiveError, match="'item 2': view 1 is damaged"):
        restore_snapshot(tmp_path / "two.tar", tmp_path / "another")


def test_numbers_that_are_none_keep_no_segment_from_being_sealed(tmp_path: Path) -> None:
    plan, rng = IndexPlan(seal_at=64, flat_below=64), np.random.default_rng(3)
    items = [Item(f"i{n}", (view(0, rng.standard_normal(FEATURE).astype(np.float32)),)) for n in range(200)]
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        collection.upsert(items)
    damage(tmp_path, "i7", 0, make_nan)
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        reports = collection.engines.settle()
        assert all(sum(one.rows for one in some) == 199 for some in reports.values())
        assert collection.search(query(items[3].observations[0].feature))[0].id == "i3"


def test_a_store_that_is_brought_up_to_date_has_checksums(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes((GOLDEN / "store_5.sqlite").read_bytes())
    with Collection.open(tmp_path, SPACE) as collection:
        ids = collection.ids()
    assert problems(tmp_path) == []
    damage(tmp_path, ids[0], 0, flip_sign)
    assert any(repr(ids[0]) in one for one in problems(tmp_path))
