"""Stores of every released schema are opened, brought up to date, and hold what they held."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from index.collection import Collection
from index.contracts import IndexPlan
from index.engine_set import engine_set
from index.engines.saved_engines import CURRENT
from index.store import browse, metadata
from index.store.checksums import find_damage_after
from index.store.database import checksums_of
from index.store.feedback import FeedbackQueryPart, Judgement, get_judgement
from index.store.metadata import ForeignStoreError
from index.store.schema import VERSION, feedback
from multifold.types import Item, Observation
from tests.index.processes import GOLDEN
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import answers, brute, feature, query, same, thing, view

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
def test_a_store_holds_what_it_held_and_goes_on(tmp_path: Path, store: Path) -> None:
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
    new = thing("new", np.random.default_rng(1))
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.delete([items[0].id]) == 1
        assert collection.upsert([new, items[1]]) == version + 3
    with Collection.open(tmp_path, SPACE) as collection:
        kept = [*items[2:], new, items[1]]
        assert answers(collection.search(asked)) == brute(kept, SPACE, asked)


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

    assert older(tmp_path) == [("3", 0)]
    steps = {3: third, 4: lambda _: done.append(4), 5: lambda _: None}  # it has what the fifth would add
    monkeypatch.setattr(metadata, "STEPS", steps)
    with pytest.raises(ForeignStoreError, match=r"schema 3, .* reads 6\. Open it for writing once"):
        Collection.open(tmp_path, SPACE, read_only=True)
    for _ in range(2):
        with Collection.open(tmp_path, SPACE) as collection:
            assert collection.ids() == ["one"]
        assert done == [3, 4]
    assert described(tmp_path) == [(str(VERSION), 1)]
    Collection.open(tmp_path, SPACE, read_only=True).close()


def broken(_: Connection) -> None:
    raise ForeignStoreError("schema 3 is broken")


@pytest.mark.parametrize(
    "steps", [{}, {3: feedback.create}, {4: feedback.create}, {3: feedback.create, 4: broken, 5: broken}]
)
def test_a_store_that_no_steps_lead_from_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[int, Callable[[Connection], None]]
) -> None:
    before = older(tmp_path)
    monkeypatch.setattr(metadata, "STEPS", steps)
    with pytest.raises(ForeignStoreError, match="schema 3"):
        Collection.open(tmp_path, SPACE)
    assert described(tmp_path) == before


PLAN = IndexPlan("Flat", "cpu")
ASKED = FeedbackQueryPart("text", text="a chair")
JUDGED = Judgement("0" * 32, "item 1", "good", "item", (ASKED,), None, ("points", 0), 1.0)


def with_points(item: Item, rng: np.random.Generator) -> Item:
    """The item, with points between its views and its captions."""
    points = Observation("points", 0, rng.standard_normal(FEATURE).astype(np.float32))
    return replace(item, observations=(*item.observations[:2], points, *item.observations[2:]))


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection of an earlier version, with views read together in the store and the saved index."""
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, SPACE, plan=PLAN) as collection:
        collection.upsert([with_points(thing(f"item {n}", rng), rng) for n in range(20)])
        collection.judge(JUDGED)
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
        rows = store.execute("SELECT * FROM observations WHERE kind = 'points'").fetchall()
        for row, edition, _, _, *others in rows:
            values = (row, edition, "together", "together", *others[:-2])
            store.execute(
                "UPDATE observations SET side = 'together', kind = 'together', feature_checksum = ?,"
                " row_checksum = ? WHERE row = ?",
                (*checksums_of(values), row),
            )
        store.execute("UPDATE feedback SET kind = 'together', query = json_remove(query, '$.checksum')")
    saved = tmp_path / "index" / CURRENT
    saved.write_text(saved.read_text().replace('"points"', '"together"'))
    for path in saved.parent.glob("*/points-*"):
        path.rename(path.with_name(path.name.replace("points", "together", 1)))
    return tmp_path


def test_views_read_together_are_left_out_and_the_rest_is_as_it_was(
    together: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert "together" in (together / "index" / CURRENT).read_text()
    asked = [query(np.eye(FEATURE)[n], limit=20) for n in range(FEATURE)]
    asked += [replace(one, target="item") for one in asked]
    with (
        Collection.open(together, SPACE, plan=PLAN) as collection,
        Collection.open(tmp_path_factory.mktemp("plain"), SPACE, plan=PLAN) as plain,
    ):
        item = collection.get("item 1")
        assert item is not None
        assert [one.kind for one in item.observations] == ["view", "view", "caption"]
        assert item.damaged == ()
        assert collection.read(browse.count_observations) == {"caption": 20, "photo": 0, "view": 40}
        assert collection.read(find_damage_after, -1, 1_000)[0] == []
        assert collection.read(get_judgement, JUDGED.id) == replace(JUDGED, seen=None)
        plain.upsert(collection.scroll())
        for one in asked:
            found, wanted = (answers(each.search(one)) for each in (collection, plain))
            assert [(name, *seen) for name, _, *seen in found] == [(name, *seen) for name, _, *seen in wanted]
            assert [score for _, score, *_ in found] == pytest.approx([score for _, score, *_ in wanted])
        collection.upsert([item])
        assert collection.delete(["item 2"]) == 1
        assert len(collection.search(asked[0])) == collection.count() == 19
        assert collection.disagreements() == []
    assert "together" not in (together / "index" / CURRENT).read_text()
