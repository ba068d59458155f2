"""What is nearest by compiled code is what FAISS and numpy find."""

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors
from index.engines.cell_scan import CellScan, can_scan, nearest_cells, squared_distances
from index.engines.exact_engine import view_of
from index.engines.faiss_index import FaissIndex, search_cells
from index.engines.faiss_library import faiss, reduction_for
from index.engines.index_build import build_index
from multifold.types import Metric

ROWS, DIM, COUNT = 2000, 40, 25
SCENE = sphere_vectors(ROWS, DIM, 30)
OFFSET = np.float32(20)  # of rows that lie far from where all numbers are 0


def made(name: str, metric: Metric = "ip", offset: float = 0.0) -> FaissIndex:
    rows = view_of(np.arange(ROWS), SCENE.rows + np.float32(offset))
    reduction = reduction_for(metric, DIM, rows.lengths)
    return build_index(name, rows, reduction, on_gpu=False, stopped=lambda: False)


def scan_of(ann: FaissIndex) -> CellScan:
    return CellScan(ann.index, ann.index.quantizer.reconstruct_n(0, ann.index.nlist))


@pytest.mark.parametrize("name", ["IVF64,SQ8", "IVF64,SQ4"])
@pytest.mark.parametrize(("metric", "offset"), [("ip", 0.0), ("l2", 0.0), ("l2", OFFSET)])
def test_rows_are_those_that_faiss_finds(name: str, metric: Metric, offset: float) -> None:
    ann = made(name, metric, offset)
    queries = ann.reduction.queries(SCENE.queries + np.float32(offset))
    cells = np.random.default_rng(1).permuted(np.tile(np.arange(64), (30, 1)), axis=1)[:, :9]
    cells[::2, 3:] = -1
    chosen = np.random.default_rng(2).random(ROWS) < 0.3
    for selected in (None, np.packbits(chosen, bitorder="little")):
        how = faiss.SearchParametersIVF(nprobe=9)
        if selected is not None:
            how.sel = faiss.IDSelectorBitmap(selected)
        for count in (1, COUNT, ROWS):
            expected = search_cells(ann.index, queries, cells, count, how)
            some = () if selected is None else (selected,)
            positions = scan_of(ann).nearest_rows(queries, cells, count, *some)
            assert positions.shape == expected.shape
            assert ((positions < 0) == (expected < 0)).all()
            # rounding may order rows in another way that are as far
            assert (np.sort(positions) == np.sort(expected)).mean() > 0.999
            assert (positions == expected).mean() > 0.98


def test_cells_are_the_nearest_and_the_farthest_of_them_is_the_last() -> None:
    squares = np.random.default_rng(3).random((7, 100), np.float32)
    ranked = np.argsort(squares, axis=1)
    for effort in (1, 4, 99, 100):
        cells = nearest_cells(squares, effort)
        assert np.array_equal(np.sort(cells, axis=1), np.sort(ranked[:, :effort], axis=1))
        assert np.array_equal(cells[:, -1], ranked[:, effort - 1])


def test_distances_are_those_of_numpy() -> None:
    expected = ((SCENE.rows - SCENE.queries[0]) ** 2).sum(axis=1)
    assert squared_distances(SCENE.queries[0], SCENE.rows) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "can"),
    [("IVF64,SQ8", True), ("IVF64,SQ4", True), ("IVF64,SQ6", False), ("IVF64,Flat", False), ("SQ8", False)],
)
def test_other_codes_are_left_to_faiss(name: str, can: bool) -> None:
    assert can_scan(made(name).index) is can


@pytest.mark.parametrize("name", ["IVF64,SQ8", "IVF64,SQ6"])
def test_more_threads_find_the_same(name: str) -> None:
    ann = made(name)
    alone = ann.candidates(SCENE.queries, COUNT, 8)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(4)
    try:
        together = ann.candidates(SCENE.queries, COUNT, 8)
    finally:
        faiss.omp_set_num_threads(before)
    assert (alone == together).mean() > 0.98
