"""Collections of earlier versions hold views read together: these are left out, and the rest is as it was."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.cluster.cluster_engines import FeedMark, mark_from_note
from index.collection import Collection
from index.contracts import IndexPlan
from index.engines.saved_engines import CURRENT
from index.search import engine_set
from index.store import browse
from index.store.checksums import find_damage_after
from index.store.database import checksums_of
from index.store.feedback import FeedbackQueryPart, Judgement, get_judgement
from multifold.types import Item, Observation
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import query, thing

SPACE = Sphere(FEATURE)
PLAN = IndexPlan("Flat", "cpu")
ASKED = FeedbackQueryPart("text", text="a chair")
JUDGED = Judgement("0" * 32, "item 1", "good", "item", (ASKED,), None, ("points", 0), 1.0)


def opened(folder: Path) -> Collection:
    return Collection.open(folder, SPACE, plan=PLAN)


def with_points(item: Item, rng: np.random.Generator) -> Item:
    """The item, with points between its views and its captions."""
    views, captions = item.observations[:2], item.observations[2:]
    points = Observation("points", 0, rng.standard_normal(FEATURE).astype(np.float32))
    return replace(item, observations=(*views, points, *captions))


@pytest.fixture
def former(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection whose points have become views read together, in the store and the saved index."""
    monkeypatch.setattr(engine_set, "WORTH_SAVING", 1)
    rng = np.random.default_rng(0)
    with opened(tmp_path) as collection:
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


def test_items_are_without_them(former: Path) -> None:
    with opened(former) as collection:
        item = collection.get("item 1")
        assert item is not None
        assert [one.kind for one in item.observations] == ["view", "view", "caption"]
        assert item.damaged == ()
        assert collection.read(browse.count_observations) == {"caption": 20, "photo": 0, "view": 40}
        assert collection.disagreements() == []
        assert collection.read(find_damage_after, -1, 1_000)[0] == []


def test_searches_find_what_they_find_without_them(
    former: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked = [query(np.eye(FEATURE)[n], limit=20) for n in range(FEATURE)]
    asked += [replace(one, target="item") for one in asked]
    with opened(former) as collection, opened(tmp_path_factory.mktemp("plain")) as plain:
        plain.upsert(collection.scroll())
        for one in asked:
            found, wanted = collection.search(one), plain.search(one)
            assert [(hit.id, hit.matched.kind, hit.matched.index) for hit in found] == [
                (hit.id, hit.matched.kind, hit.matched.index) for hit in wanted
            ]
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted])


def test_an_item_is_written_and_deleted_as_any_other(former: Path) -> None:
    with opened(former) as collection:
        item = collection.get("item 1")
        assert item is not None
        collection.upsert([item])
        assert collection.delete(["item 2"]) == 1
        assert collection.count() == 19
        assert len(collection.search(query(np.eye(FEATURE)[0], limit=20))) == 19
        assert collection.disagreements() == []


def test_a_saved_index_with_them_is_made_anew(former: Path) -> None:
    assert "together" in (former / "index" / CURRENT).read_text()
    opened(former).close()
    assert "together" not in (former / "index" / CURRENT).read_text()


def test_a_cluster_with_them_is_fed_anew() -> None:
    note = FeedMark(fed=5, segments=(("shape", "pooled"), ("points", "pooled"))).as_note()
    assert mark_from_note(note) is not None
    assert mark_from_note(note.replace("points", "together")) is None


def test_a_verdict_on_them_counts(former: Path) -> None:
    with opened(former) as collection:
        assert collection.read(get_judgement, JUDGED.id) == replace(JUDGED, seen=None)
