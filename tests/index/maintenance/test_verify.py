"""What is wrong in a store or an index is found."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import IndexPlan
from index.maintenance.verify import find_store_problems
from index.store.database import StoreError
from index.store.store import Store, open_blobs
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import thing


def wrong(folder: Path) -> list[str]:
    with closing(Store(folder / "store.sqlite", None, read_only=True)) as store:
        return list(find_store_problems(open_blobs(folder, None), store))


def edit(script: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
            store.executescript(script)

    return harm


def picture(folder: Path) -> Path:
    (path,) = folder.glob("blobs/*/*")
    return path


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "an observation is lost": (edit("DELETE FROM observations WHERE kind = 'view'"), "should have 2 observ"),
    "an item is lost": (edit("DELETE FROM items WHERE id = 'chair'"), "belongs to nothing"),
    "a feature is cut": (edit("UPDATE observations SET feature = x'0000803f'"), "has a feature of 4 bytes"),
    "a feature is no number": (
        edit(f"UPDATE observations SET feature = x'{'0000c07f' * FEATURE}'"),
        "not finite",
    ),
    "the clock was turned back": (edit("UPDATE clock SET last = 3"), "clock stands at 3"),
    "a picture is damaged": (lambda folder: picture(folder).write_bytes(b"something else"), "is damaged"),
    "a picture is lost": (lambda folder: picture(folder).unlink(), "no blob"),
}


@pytest.mark.parametrize(("harm", "reason"), HARMS.values(), ids=list(HARMS))
def test_what_is_wrong_is_found(
    collection: Collection, tmp_path: Path, harm: Callable[[Path], object], reason: str
) -> None:
    collection.close()
    assert wrong(tmp_path / "things") == []
    harm(tmp_path / "things")
    assert any(reason in one for one in wrong(tmp_path / "things"))


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
    rng = np.random.default_rng(3)
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        collection.upsert([thing(f"item {n}", rng) for n in range(120)])
        collection.delete(["item 1", "item 2"])
        collection.engines.settle()
        assert collection.disagreements() == []
        engine = collection.engines.engines["shape", "pooled"]
        (row,) = np.concatenate([block[0] for block in engine.blocks()])[:1]
        engine.remove(np.array([row]))
        (told,) = collection.disagreements()
        assert "shape pooled rows has 117 rows, and the store makes 118" in told
        engine.add(np.array([row]), np.ones((1, FEATURE), np.float32))
        (told,) = collection.disagreements()
        assert f"another vector than the store for row {row}" in told
