"""Stores of every older schema are opened, brought up to date, and hold what they held."""

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.truth.filters import parse
from index.truth.stamp import ForeignStoreError
from multifold.types import Item, Observation
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, brute, feature, query, same, thing, view

GOLDEN = Path(__file__).parent.parent / "golden"
SPACE = Sphere(FEATURE)
STORES = sorted(GOLDEN.glob("store_*.sqlite"))


def held(store: Path) -> tuple[int, list[Item]]:
    """Version and items of a golden store, the items in the order in which they were last written."""
    told = json.loads(store.with_suffix(".json").read_text("utf-8"))
    return told["version"], [_item(one) for one in told["items"]]


def _item(told: dict[str, object]) -> Item:
    seen = [
        Observation(kind, index, np.array(numbers, np.float32), text, blob)
        for kind, index, numbers, text, blob in told["observations"]  # type: ignore[attr-defined]
    ]
    return Item(str(told["id"]), tuple(seen), told["payload"])  # type: ignore[arg-type]


def test_there_are_old_stores() -> None:
    assert "store_1" in [store.stem for store in STORES]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_an_old_store_holds_what_it_held(tmp_path: Path, store: Path) -> None:
    shutil.copy(store, tmp_path / "store.sqlite")
    version, items = held(store)
    for _ in range(2):  # brought up to date, and opened again
        with Collection.open(tmp_path, SPACE) as collection:
            assert collection.version == version
            assert collection.ids() == sorted(item.id for item in items)
            assert all(same(collection.get(item.id), item) for item in items)
            for pooled in ("mean", "max"):
                asked = query(feature(1, -1, 0.5), pool=pooled, limit=20)
                assert answers(collection.search(asked)) == brute(items, SPACE, asked)


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_an_old_store_goes_on(tmp_path: Path, store: Path) -> None:
    shutil.copy(store, tmp_path / "store.sqlite")
    version, items = held(store)
    new = thing("new", np.random.default_rng(1))
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.delete([items[0].id]) == 1
        assert collection.upsert([new, items[1]]) == version + 3
    with Collection.open(tmp_path, SPACE) as collection:
        kept = [*items[2:], new, items[1]]
        assert answers(collection.search(query(feature(1), limit=20))) == brute(
            kept, SPACE, query(feature(1), limit=20)
        )


def older(folder: Path, count: int) -> None:
    """A store as schema 1 had it."""
    with Collection.open(folder, SPACE) as collection:
        rng = np.random.default_rng(0)
        seen = [view(0, feature(*rng.standard_normal(FEATURE)))]
        collection.upsert([Item(f"i{n}", tuple(seen), {"n": n, "tags": ["a", "b"]}) for n in range(count)])
    with sqlite3.connect(folder / "store.sqlite") as store:
        store.execute("DROP TABLE facts")
        store.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
    store.close()


def test_an_older_store_can_be_filtered_once_it_is_opened(tmp_path: Path) -> None:
    older(tmp_path, 2500)
    with pytest.raises(ForeignStoreError, match=r"schema 1, .* reads 5\. Open it for writing once"):
        Collection.open(tmp_path, SPACE, read_only=True)
    for _ in range(2):
        with Collection.open(tmp_path, SPACE) as collection:
            assert collection.count(parse({"n": {"gte": 1000}})) == 1500
            assert collection.facets(["tags"])["tags"][0].count == 2500
    Collection.open(tmp_path, SPACE, read_only=True).close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    older(tmp_path, 3)
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        store.execute("UPDATE items SET payload = 'broken' WHERE id = 'i2'")
    store.close()
    with pytest.raises(ValueError, match="Expecting value"):
        Collection.open(tmp_path, SPACE)
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        assert store.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("1",)
        assert store.execute("SELECT name FROM sqlite_master WHERE name = 'facts'").fetchall() == []
    store.close()
