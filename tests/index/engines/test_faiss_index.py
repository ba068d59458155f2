"""Rows that come later lie in cells that another part has learned, and are found there."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.index.generated_vectors import sphere_vectors
from index.contracts import IndexPlan
from index.engines import faiss_engine, segments
from index.engines.exact_engine import ExactEngine, RowView, join_rows, view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import LINE, FaissIndex, IndexStart
from index.engines.faiss_library import Index, faiss, reduction_for
from index.engines.index_build import build_index, extend_index
from index.engines.segments import Segment
from multifold.types import Metric, Vectors

DIM = 32
SCENE = sphere_vectors(19_000, DIM, 64)
TYPES = ("IVF32,SQ8", "IVF32,Flat", "IVF32_HNSW8,SQ8")


def learned(name: str, rows: Vectors, metric: Metric = "ip") -> FaissIndex:
    view = view_of(np.arange(len(rows)), rows)
    return build_index(
        name, view, reduction_for(metric, DIM, view.lengths), on_gpu=False, stopped=lambda: False
    )


def address(index: Index) -> int:
    centroids = faiss.downcast_index(faiss.try_extract_index_ivf(index).quantizer)
    found: int = faiss.rev_swig_ptr(centroids.get_xb(), 1).ctypes.data
    return found


def rows_of(parts: list[Segment]) -> RowView:
    return join_rows([part.rows for part in parts])


def never() -> bool:
    return False


PARENT = learned("IVF32,SQ8", SCENE.rows[:4000])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("begun", [0, 700])
def test_later_rows_lie_where_the_learned_index_would_have_put_them(name: str, begun: int) -> None:
    parent, rows = learned(name, SCENE.rows[:4000]), SCENE.rows[4000:6000]
    first = extend_index(IndexStart(parent, 0), view_of(np.arange(begun), rows[:begun]), never)
    assert first is not None
    assert first.index.ntotal == begun
    later = extend_index(IndexStart(first, begun), view_of(np.arange(len(rows)), rows), never)
    assert later is not None
    assert later.cells is parent.cells
    assert (first.index.ntotal, parent.index.ntotal) == (begun, 4000)
    both = learned(name, SCENE.rows[:4000])
    both.index.reset()
    both.index.add(both.reduction.gallery(rows))
    for effort in (1, 5, 32):
        expected = both.index.search(
            both.reduction.queries(SCENE.queries), 20, params=both._asking(effort, 20)
        )[1]
        np.testing.assert_array_equal(later.candidates(SCENE.queries, 20, effort), expected)


@pytest.mark.parametrize("name", ["IVF32,SQ8", "IVF32,Flat", "IVF32,RaBitQfs"])
def test_centroids_begin_where_a_cache_line_does(name: str) -> None:
    assert address(learned(name, SCENE.rows[:4000]).index) % LINE == 0


def test_later_parts_have_the_centroids_of_the_first_which_they_outlive() -> None:
    parent, rows = learned("IVF32,SQ8", SCENE.rows[:4000]), SCENE.rows[4000:6000]
    later = extend_index(IndexStart(parent, 0), view_of(np.arange(len(rows)), rows), never)
    assert later is not None
    assert address(later.index) == address(parent.index)
    index = later.index
    expected = index.search(later.reduction.queries(SCENE.queries), 20)[1]
    queries = later.reduction.queries(SCENE.queries)
    del parent, later
    gc.collect()
    others = [np.full(1 << n, np.nan, np.float32) for n in range(4, 20)]  # take the memory that is free
    np.testing.assert_array_equal(index.search(queries, 20)[1], expected)
    assert others


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 80)), min_size=1, max_size=12))
def test_cells_of_a_query_are_the_same_whoever_asked_before(asked: list[tuple[int, int]]) -> None:
    arrays = [SCENE.queries[:1], SCENE.queries[1:2], SCENE.queries[2:9]]
    for which, effort in asked:
        queries = arrays[which]
        expected = PARENT.index.quantizer.search(PARENT.reduction.queries(queries), min(effort, 32))[1]
        assert PARENT.cells is not None
        np.testing.assert_array_equal(PARENT.cells.nearest(queries, effort).cells, expected)


def test_no_more_cells_are_looked_for_than_the_last_query_needed() -> None:
    cells = learned("IVF32,SQ8", SCENE.rows[:4000]).cells
    assert cells is not None
    for queries, effort in ((SCENE.queries[:1], 30), (SCENE.queries[1:2], 3), (SCENE.queries[2:3], 2)):
        cells.nearest(queries, effort)
    assert cells._last.nearest is not None
    assert cells._last.nearest.cells.shape[1] == 3


def test_threads_do_not_see_each_others_cells() -> None:
    cells = learned("IVF32,SQ8", SCENE.rows[:4000]).cells
    assert cells is not None
    cells.nearest(SCENE.queries[:1], 4)
    seen = list[object]()
    thread = threading.Thread(target=lambda: seen.append(cells._last.queries))
    thread.start()
    thread.join()
    assert seen == [None]


def test_an_array_that_is_filled_anew_is_another_query() -> None:
    live = lively()
    asked = np.empty((1, DIM), np.float32)
    for query in SCENE.queries[:20]:
        asked[0] = query
        assert live.search(asked, 5)[1].tolist() == live.search(query[None].copy(), 5)[1].tolist()
    live.close()


@pytest.mark.parametrize("lengths", [1.0, np.linspace(0.5, 1.0, 4000, dtype=np.float32)[:, None]])
def test_only_rows_that_can_be_reduced_alike_go_to_known_cells(lengths: float | Vectors) -> None:
    parent = learned("IVF32,SQ8", SCENE.rows[:4000] * np.float32(lengths))
    even = isinstance(lengths, float)
    for factor, fits in ((0.9, not even), (0.999995, True), (1.1, False)):
        rows = SCENE.rows[4000:6000] * np.float32(factor)
        there = extend_index(IndexStart(parent, 0), view_of(np.arange(len(rows)), rows), never)
        assert (there is not None) is fits
    by_distance = learned("IVF32,SQ8", SCENE.rows[:4000], "l2")
    assert (
        extend_index(IndexStart(by_distance, 0), view_of(np.arange(2000), 3 * SCENE.rows[4000:6000]), never)
        is not None
    )


def test_types_without_cells_to_share_start_afresh() -> None:
    graph = learned("HNSW8,SQ8", SCENE.rows[:4000])
    rows = view_of(np.arange(2000), SCENE.rows[4000:6000])
    assert extend_index(IndexStart(graph, 0), rows, never) is None
    assert segments.index_start([Segment(rows, graph)], [], rows) is None


def test_a_merge_starts_from_the_rows_that_are_there() -> None:
    parent = learned("IVF32,SQ8", SCENE.rows[:4000])
    largest = Segment(view_of(np.arange(4000), SCENE.rows[:4000]), parent)
    some, more = (view_of(np.arange(*ids), SCENE.rows[slice(*ids)]) for ids in ((4000, 4500), (4500, 5000)))
    in_cells = extend_index(IndexStart(parent, 0), some, never)
    assert in_cells is not None
    there = Segment(some, in_cells)
    now, chosen = [largest, there, Segment(more)], [there, Segment(more)]
    start = segments.index_start(now, chosen, rows_of(chosen))
    assert start == IndexStart(in_cells, 500)
    dead = [Segment(some.without(np.array([4007])), there.ann), Segment(more)]
    start = segments.index_start([largest, *dead], dead, rows_of(dead))
    assert start == IndexStart(parent, 0)
    assert segments.index_start(now, now, rows_of(now)) is None


def lively() -> FaissEngine:
    """Most of the rows sealed, with cells of their own; then the others in small steps, some removed."""
    plan = IndexPlan("IVF256,SQ8", "cpu", 0.8, seal_at=2000, flat_below=0)
    live = FaissEngine(DIM, "ip", plan, ask=lambda count: SCENE.probes[:count])
    live.add(np.arange(16_000), SCENE.rows[:16_000])
    live.settle()
    for start in range(16_000, 19_000, 500):
        live.add(np.arange(start, start + 500), SCENE.rows[start : start + 500])
        live.settle()
    return live


@pytest.mark.parametrize("hasty", [True, False])
def test_what_comes_later_is_found_in_the_cells_of_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: bool
) -> None:
    if hasty:
        monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 64 * DIM)
    live, exact = lively(), ExactEngine(DIM, "ip")
    exact.add(np.arange(19_000), SCENE.rows)
    largest, *others = sorted(live.parts, key=lambda part: -len(part.rows))
    assert largest.ann is not None
    assert len(largest.rows) == 16_000
    assert {part.ann.cells for part in others if part.ann} == {largest.ann.cells}
    assert [report.type for report in live.reports()] == ["IVF256,SQ8"] * 2
    for one in (live, exact):
        one.remove(np.arange(0, 19_000, 11))
    live.save(tmp_path / "rows")
    again = lively()
    again.load(tmp_path / "rows")
    for engine in (live, again):
        for limit in (1, 10, 100):
            known = exact.search(SCENE.queries, limit)[0][:, -1:]
            assert np.mean(engine.search(SCENE.queries, limit)[0] >= known) > 0.8
        engine.close()


def test_rows_unlike_those_there_get_cells_of_their_own() -> None:
    """The learned cells all lie on one side; what comes later lies in a single one of them."""
    near = np.random.default_rng(1).normal(0, 0.02, (4000, DIM)).astype(np.float32)
    near[:, 0] += 1
    far = np.random.default_rng(2).normal(0, 1, (600, DIM)).astype(np.float32)
    far[:, 0] = -abs(far[:, 0])
    rows = np.concatenate([near, far])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    plan = IndexPlan("IVF128,SQ8", "cpu", 0.95, seal_at=300, flat_below=0)
    live, exact = FaissEngine(DIM, "ip", plan), ExactEngine(DIM, "ip")
    for ids in (np.arange(4000), np.arange(4000, 4600)):
        for one in (live, exact):
            one.add(ids, rows[ids])
        live.settle()
    known = exact.search(rows[-100:], 10)[0][:, -1:]
    assert np.mean(live.search(rows[-100:], 10)[0] >= known) > 0.95
    live.close()
