"""Vectors stored as float16: half the bytes, one score wherever a row is, refused where they do not do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import IndexEngineError, IndexPlan, IndexPlanError, RowsLostError
from index.engine_factory import check_plan
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.engines.row_file import row_sums
from multifold.types import Item
from tests.index.clustered_rows import COUNT, DIM, QUERIES, ROWS, share_found
from tests.index.spaces import Lorentz, Sphere
from tests.index.things import query, view


def test_half_the_numbers_of_vectors_score_the_same_wherever_they_are(tmp_path: Path) -> None:
    plan = IndexPlan("auto", "cpu", 0.95, COUNT, 100, "codes", "float16")
    halves, exact = ROWS.astype(np.float16).astype(np.float32), ExactEngine(DIM, "l2")
    exact.add(np.arange(COUNT), halves)
    live = FaissEngine(DIM, "l2", plan, home=tmp_path / "home")
    live.add(np.arange(500), ROWS[:500])
    fresh = live.search(QUERIES, 25, np.arange(500), exact=True)
    assert fresh[0].tolist() == exact.search(QUERIES, 25, np.arange(500))[0].tolist()
    live.add(np.arange(500, COUNT), ROWS[500:])
    live.settle()
    (report,), (vectors,) = live.reports(), (tmp_path / "home").glob("*.vectors")
    assert report.file_bytes_per_row == 2 * DIM == vectors.stat().st_size / COUNT
    assert share_found(live, exact) >= 0.95
    (tmp_path / "save").mkdir()
    live.save(tmp_path / "save" / "rows")
    again = FaissEngine(DIM, "l2", plan, home=tmp_path / "other")
    again.load(tmp_path / "save" / "rows")
    for one in (live, again):
        found = one.search(QUERIES, 25, exact=True)
        assert [each.tolist() for each in found] == [each.tolist() for each in exact.search(QUERIES, 25)]
        assert one.range(QUERIES[0], -20.0)[1].tolist() == exact.range(QUERIES[0], -20.0)[1].tolist()
        ids, blocks = zip(*one.blocks(), strict=True)
        assert (np.concatenate(blocks) == halves[np.concatenate(ids)]).all()
    again.remove(np.arange(0, COUNT, 2))  # and are merged
    exact.remove(np.arange(0, COUNT, 2))
    again.settle()
    assert again.search(QUERIES, 25, exact=True)[0].tolist() == exact.search(QUERIES, 25)[0].tolist()
    live.close()
    again.close()


def test_half_the_numbers_that_are_filled_in_are_merged_with_those_in_memory(tmp_path: Path) -> None:
    plan = IndexPlan("auto", "cpu", 0.95, COUNT // 4, COUNT // 2, "codes", "float16")
    live = FaissEngine(DIM, "l2", plan, home=tmp_path)
    with live.filling():  # the first rows are too few for a file, and so is what is left of them then
        for some in np.array_split(np.arange(COUNT), [COUNT * 2 // 5, COUNT * 4 // 5]):
            live.add(some, ROWS[some])
    live.settle()
    ids, blocks = zip(*live.blocks(), strict=True)
    assert (np.concatenate(blocks) == ROWS.astype(np.float16)[np.concatenate(ids)]).all()
    assert sorted(np.concatenate(ids).tolist()) == [*range(COUNT)]
    live.close()


def test_half_the_numbers_are_checked_when_they_are_read(tmp_path: Path) -> None:
    halves = ROWS.astype(np.float16)
    sums = row_sums(halves)
    for bit in range(16):
        words = halves.copy().view(np.uint16)
        words[:, bit] ^= np.uint16(1 << bit)
        assert (row_sums(words.view(np.float16)) != sums).all()
    live = FaissEngine(
        DIM, "l2", IndexPlan("auto", "cpu", 0.95, COUNT, 100, "codes", "float16"), home=tmp_path
    )
    live.add(np.arange(COUNT), ROWS)
    live.settle()
    (vectors,) = tmp_path.glob("*.vectors")
    with vectors.open("r+b") as file:
        file.seek(2 * DIM * 77 + 13)
        file.write(b"!!")
    seen = live.parts[0].rows.file
    assert seen is not None
    seen.seen[:] = False
    with pytest.raises(RowsLostError, match="damaged"):
        live.search(QUERIES, 10, exact=True)
    live.close()


def test_numbers_that_float16_does_not_hold_are_refused() -> None:
    live = FaissEngine(DIM, "l2", IndexPlan(stored="float16"))
    with pytest.raises(IndexEngineError, match="65,504"):
        live.add(np.arange(1), np.full((1, DIM), 1e5, np.float32))
    assert live.count() == 0
    live.close()
    for plan, space, told in (
        (IndexPlan("exact", stored="float16"), Sphere(DIM), "float32 only"),
        (IndexPlan(stored="float16"), Lorentz(DIM), "not exact enough"),
    ):
        with pytest.raises(IndexPlanError, match=told):
            check_plan(plan, space)


def test_a_collection_keeps_half_the_numbers_after_a_reindex(tmp_path: Path) -> None:
    space, plan = Sphere(DIM), IndexPlan("IVF{cells},SQ4", "cpu", 0.9, 1000, 100, "codes")
    things = [Item(f"thing {number}", (view(0, ROWS[number]),), {}) for number in range(COUNT // 2)]
    with Collection.open(tmp_path, space, plan=plan) as collection:
        collection.upsert(things)
        wanted = [hit.id for hit in collection.search(query(ROWS[5]), exact=True)]
        for stored, size in (("float16", 2.0), ("float32", 4.0)):
            reports = collection.reindex(replace(plan, stored=stored))  # type: ignore[arg-type]
            assert {one.file_bytes_per_row for parts in reports.values() for one in parts} == {size * DIM}
            assert [hit.id for hit in collection.search(query(ROWS[5]), exact=True)] == wanted
            assert collection.disagreements() == []
