"""Stores of every released schema are opened, brought up to date, and hold what they held."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from index.collection import Collection
from index.store import metadata
from index.store.metadata import ForeignStoreError
from index.store.schema import VERSION, feedback
from multifold.types import Item, Observation
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, brute, feature, query, same, thing, view

GOLDEN = Path(__file__).parents[2] / "golden"
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


def test_there_is_a_store_of_today() -> None:
    assert f"store_{VERSION}" in [store.stem for store in STORES]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_a_store_holds_what_it_held(tmp_path: Path, store: Path) -> None:
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
def test_a_store_goes_on(tmp_path: Path, store: Path) -> None:
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


def no_step(_: Connection) -> None:
    """The made-up store has what this step would add."""


def older(folder: Path) -> list[tuple[str, int]]:
    """A store of a made-up schema 3, without the table of feedback; gives what it says of itself."""
    with Collection.open(folder, SPACE) as collection:
        collection.upsert([Item("one", (view(0, feature(1)),), {"n": 1})])
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        store.execute("DROP TABLE feedback")
        store.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")
        store.commit()
    return described(folder)


def described(folder: Path) -> list[tuple[str, int]]:
    """The schema of a store, and how many tables of feedback it has."""
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        return store.execute(
            "SELECT value, (SELECT count(*) FROM sqlite_master WHERE name = 'feedback') "
            "FROM meta WHERE key = 'schema'"
        ).fetchall()


def test_an_older_store_is_brought_up_to_date_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def third(connection: Connection) -> None:
        feedback.create(connection)
        done.append(3)

    def fourth(connection: Connection) -> None:
        done.append(4)

    assert older(tmp_path) == [("3", 0)]
    monkeypatch.setattr(metadata, "STEPS", {3: third, 4: fourth, 5: no_step})
    with pytest.raises(ForeignStoreError, match=r"schema 3, .* reads 6\. Open it for writing once"):
        Collection.open(tmp_path, SPACE, read_only=True)
    for _ in range(2):
        with Collection.open(tmp_path, SPACE) as collection:
            assert collection.ids() == ["one"]
        assert done == [3, 4]
    assert described(tmp_path) == [(str(VERSION), 1)]
    Collection.open(tmp_path, SPACE, read_only=True).close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: Connection) -> None:
        raise ValueError("broken")

    before = older(tmp_path)
    monkeypatch.setattr(metadata, "STEPS", {3: feedback.create, 4: broken, 5: no_step})
    with pytest.raises(ValueError, match="broken"):
        Collection.open(tmp_path, SPACE)
    assert described(tmp_path) == before


@pytest.mark.parametrize("steps", [{}, {3: feedback.create}, {4: feedback.create}])
def test_a_store_that_no_steps_lead_from_is_refused_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[int, Callable[[Connection], None]]
) -> None:
    before = older(tmp_path)
    monkeypatch.setattr(metadata, "STEPS", steps)
    with pytest.raises(ForeignStoreError, match="schema 3"):
        Collection.open(tmp_path, SPACE)
    assert described(tmp_path) == before
