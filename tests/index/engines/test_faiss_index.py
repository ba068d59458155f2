"""Rows that come later lie in cells that another part has learned, and are found there."""

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors
from index.contracts import IndexPlan
from index.engines import faiss_engine, merging
from index.engines.cell_distances import cell_bounds
from index.engines.exact_engine import RowView, join_rows, view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import LINE, FaissIndex, IndexStart, search_effort
from index.engines.faiss_library import Index, faiss, reduction_for
from index.engines.index_build import build_index, extend_index
from index.engines.segments import Segment
from multifold.types import Metric, Vectors
from tests.index.engines.built import exact_of, found

DIM, LEARNED = 32, 2000
SCENE = sphere_vectors(19_000, DIM, 64)


def view(start: int, end: int, times: float = 1.0) -> RowView:
    return view_of(np.arange(start, end), SCENE.rows[start:end] * np.float32(times))


def learned(name: str, rows: Vectors = SCENE.rows[:LEARNED], metric: Metric = "ip") -> FaissIndex:
    made = view_of(np.arange(len(rows)), rows)
    reduction = reduction_for(metric, DIM, made.lengths)
    return build_index(name, made, reduction, on_gpu=False, stopped=lambda: False)


def extended(known: FaissIndex, there: int, rows: RowView) -> FaissIndex:
    """Of these rows the first are there already."""
    made = extend_index(IndexStart(known, np.arange(there) if there else None), rows, lambda: False)
    assert made is not None
    return made


def address(index: Index) -> int:
    centroids = faiss.downcast_index(faiss.try_extract_index_ivf(index).quantizer)
    where: int = faiss.rev_swig_ptr(centroids.get_xb(), 1).ctypes.data
    return where


PARENT = learned("IVF32,SQ8")


@pytest.mark.parametrize("name", ["IVF32,SQ8", "IVF32,Flat", "IVF32_HNSW8,SQ8"])
@pytest.mark.parametrize("begun", [0, 700])
def test_later_rows_lie_where_the_learned_index_would_have_put_them(name: str, begun: int) -> None:
    parent, both = learned(name), learned(name)
    first = extended(parent, 0, view(LEARNED, LEARNED + begun))
    assert first.index.ntotal == begun
    later = extended(first, begun, view(LEARNED, 4000))
    assert later.cells is parent.cells
    assert (first.index.ntotal, parent.index.ntotal) == (begun, LEARNED)
    both.index.reset()
    both.index.add(both.reduction.gallery(SCENE.rows[LEARNED:4000]))
    for effort in (1, 5, 32):
        asking = search_effort(both.index)[2](effort, 20)
        expected = both.index.search(both.reduction.queries(SCENE.queries), 20, params=asking)[1]
        found = later.candidates(SCENE.queries, 20, effort)
        assert (found == expected).mean() >= (0.95 if "HNSW" in name else 1)  # which misses some cells itself


@pytest.mark.parametrize("name", ["IVF32,SQ8", "IVF32,Flat", "IVF32,RaBitQfs"])
def test_centroids_begin_where_a_cache_line_does(name: str) -> None:
    assert address(learned(name).index) % LINE == 0


def test_later_parts_have_the_centroids_of_the_first_which_they_outlive() -> None:
    parent = learned("IVF32,SQ8")
    later = extended(parent, 0, view(LEARNED, 4000))
    assert address(later.index) == address(parent.index)
    index, queries = later.index, later.reduction.queries(SCENE.queries)
    expected = index.search(queries, 20)[1]
    del parent, later
    gc.collect()
    others = [np.full(1 << n, np.nan, np.float32) for n in range(4, 20)]  # take the memory that is free
    np.testing.assert_array_equal(index.search(queries, 20)[1], expected)
    assert others


def test_distances_to_cells_are_the_same_whoever_asked_before() -> None:
    arrays, cells = [SCENE.queries[:1], SCENE.queries[1:2], SCENE.queries[2:9]], PARENT.cells
    assert cells is not None
    centres = PARENT.index.quantizer.reconstruct_n(0, cells.count)
    with ThreadPoolExecutor(1) as other:
        for turn, queries in enumerate(arrays * 3):
            told = other.submit(cells.distances, queries).result() if turn % 2 else cells.distances(queries)
            expected = ((PARENT.reduction.queries(queries)[:, None] - centres) ** 2).sum(axis=2)
            assert told.squares == pytest.approx(expected, abs=1e-5)
            assert cells.distances(queries) is cells.distances(queries)
            nearest = np.argsort(told.squares, axis=1)[:, :5]
            assert np.array_equal(np.sort(told.nearest(5), axis=1), np.sort(nearest, axis=1))
            assert np.array_equal(told.nearest(5)[:, -1], nearest[:, -1])


def test_a_cell_is_within_reach_if_its_rows_may_be_nearer_than_the_last_found() -> None:
    """A row that lies from its centre straight towards the query is as near as the distance less a radius."""
    last, radius = np.array([9.0, 1.0, 0.0, np.inf], np.float32), 4.0
    assert cell_bounds(last, 1.0, radius) == pytest.approx([25.0, 9.0, 4.0, np.inf])
    assert cell_bounds(last, 0.0, radius) == pytest.approx([5.0, 0.0, 0.0, np.inf])
    assert (np.diff([cell_bounds(last[:1], reach, radius)[0] for reach in (0.1, 0.2, 0.4)]) > 0).all()


@pytest.mark.parametrize("even", [True, False])
def test_only_rows_that_can_be_reduced_alike_go_to_known_cells(even: bool) -> None:
    lengths = np.ones(LEARNED) if even else np.linspace(0.5, 1.0, LEARNED)
    parent = learned("IVF32,SQ8", SCENE.rows[:LEARNED] * lengths[:, None].astype(np.float32))
    for factor, fits in ((0.9, not even), (0.999995, True), (1.1, False)):
        rows = view(LEARNED, 4000, factor)
        assert (extend_index(IndexStart(parent), rows, lambda: False) is not None) is fits
    extended(learned("IVF32,SQ8", metric="l2"), 0, view(LEARNED, 4000, 3))


def test_a_merge_starts_from_the_cells_and_the_rows_that_are_there() -> None:
    def start(now: list[Segment], chosen: list[Segment]) -> IndexStart | None:
        return merging.index_start(now, chosen, join_rows([part.rows for part in chosen]))

    def kept(start: IndexStart | None) -> list[int]:
        assert start is not None
        assert start.known is there.ann
        assert start.places is not None
        return [*map(int, start.places)]

    some, more = view(LEARNED, 2500), view(2500, 3000)
    largest, there = Segment(view(0, LEARNED), PARENT), Segment(some, extended(PARENT, 0, some))
    assert there.ann is not None
    now = [largest, there, Segment(more)]
    assert kept(start(now, now[1:])) == [*range(500)]
    dead = [Segment(some.without(np.array([LEARNED + 7])), there.ann), Segment(more)]
    assert kept(start([largest, *dead], dead)) == [*range(7), -1, *range(7, 499)]
    assert start([largest, now[2]], now[2:]) == IndexStart(PARENT)
    assert start(now, now) is None
    graph = learned("HNSW8,SQ8")  # which has no cells to share
    assert extend_index(IndexStart(graph), some, lambda: False) is None
    assert start([Segment(view(0, LEARNED), graph)], [Segment(some)]) is None


@pytest.mark.parametrize(("hasty", "apart"), [(True, True), (False, True), (False, False)])
def test_what_comes_later_is_found_in_the_cells_of_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: bool, apart: bool
) -> None:
    """Most of the rows are sealed, with cells of their own; then the others come in small steps."""
    if apart:  # they stay parts beside the first one
        monkeypatch.setattr(merging, "KEPT_TIER", 0)
        monkeypatch.setattr(merging, "QUIET_TIER", 0)
    if hasty:
        monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 64 * DIM)
    plan = IndexPlan("IVF256,SQ8", "cpu", 0.8, seal_at=2000, flat_below=0)
    live, again = (FaissEngine(DIM, "ip", plan, ask=lambda count: SCENE.probes[:count]) for _ in range(2))
    for start, end in ((0, 16_000), *((start, start + 500) for start in range(16_000, 19_000, 500))):
        live.search(SCENE.queries[:1], 1)
        live.add(np.arange(start, end), SCENE.rows[start:end])
        live.settle()
    largest, *others = sorted(live.parts, key=lambda part: -len(part.rows))
    assert largest.ann is not None
    assert (len(largest.rows), largest.ann.added) == ((16_000, 0) if apart else (19_000, 3000))
    assert {part.ann.cells for part in others if part.ann} == ({largest.ann.cells} if apart else set())
    assert [report.type for report in live.reports()] == ["IVF256,SQ8"] * (2 if apart else 1)
    exact = exact_of(SCENE.rows)
    for one in (live, exact):
        one.remove(np.arange(0, 19_000, 11))
    live.save(tmp_path / "rows")
    again.load(tmp_path / "rows")
    asked = np.empty((1, DIM), np.float32)
    for query in SCENE.queries[:20]:
        asked[0] = query  # an array that is filled anew is another query
        assert live.search(asked, 5)[1].tolist() == live.search(query[None].copy(), 5)[1].tolist()
    for engine in (live, again):
        for limit in (1, 10, 100):
            assert found(engine, exact, SCENE.queries, limit) > 0.8
        engine.close()


def test_rows_unlike_those_there_get_cells_of_their_own() -> None:
    """The learned cells all lie on one side; what comes later lies in a single one of them."""
    near = np.random.default_rng(1).normal(0, 0.02, (3000, DIM))
    near[:, 0] += 1
    far = np.random.default_rng(2).normal(0, 1, (600, DIM))
    far[:, 0] = -abs(far[:, 0])
    rows = np.concatenate([near, far]).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    live = FaissEngine(DIM, "ip", IndexPlan("IVF64,SQ8", "cpu", 0.95, seal_at=300, flat_below=0))
    for ids in (np.arange(3000), np.arange(3000, 3600)):
        live.add(ids, rows[ids])
        live.settle()
    assert found(live, exact_of(rows), rows[-100:], 10) > 0.95
    live.close()


@pytest.mark.parametrize("name", ["IVF32,SQ8", "IVF32,SQ6"])
def test_more_threads_find_the_same(name: str) -> None:
    made = learned(name)
    alone = made.candidates(SCENE.queries, 25, 8)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(4)
    try:
        together = made.candidates(SCENE.queries, 25, 8)
    finally:
        faiss.omp_set_num_threads(before)
    assert np.array_equal(alone, together)
