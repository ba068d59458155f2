"""Trains and fills an index, in little more memory than it takes in the end.

Inverted lists double their room when they are full, which would be up to twice what they need in the end. So
the cell of each row is found first, each list gets the room that it needs, and the rows are added after that.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Int64

from index.contracts import ROWS_PER_CELL
from index.engines import faiss_library
from index.engines.exact_engine import RowView
from index.engines.faiss_index import (
    BuildStopped,
    FaissIndex,
    IndexStart,
    align_centroids,
    empty_index,
    shared_cells_of,
)
from index.engines.faiss_library import Index, L2Reduction, ReducedVectors, faiss
from multifold.machine import release_memory

ROUNDS = 6  # of moving the centres of cells; four more save at most 4 of 100 cells
ROWS_A_STEP = 2048  # rows added between two checks whether to stop
TRAINING = 32_768  # rows that codes and cells are learned from, or more if there are many cells


def build_index(
    type: str,  # noqa: A002 (what it is called here)
    view: RowView,
    reduction: L2Reduction,
    *,
    on_gpu: bool,
    stopped: Callable[[], bool],
) -> FaissIndex:
    """Train and fill an index of this type."""
    if type == faiss_library.CAGRA:
        return FaissIndex(type, reduction, faiss_library.build_cagra(reduction.gallery(view.vectors)))
    index = empty_index(type, reduction.width)
    cells = faiss.try_extract_index_ivf(index)
    if cells is not None:
        cells.cp.niter = ROUNDS
    learned = max(TRAINING, 0 if cells is None else ROWS_PER_CELL * int(cells.nlist))
    sample = np.sort(np.random.default_rng(0).permutation(len(view.ids))[:learned])
    reduced = np.empty((len(sample), reduction.width), np.float32)
    for some in _pieces(0, len(sample)):  # no second copy of it all
        reduced[some] = reduction.gallery(view.take(sample[some]))
    _train(index, reduced)
    del reduced
    release_memory()
    shared = None if on_gpu else shared_cells_of(reduction, align_centroids(index))
    _fill(index, reduction, view, stopped)
    index = faiss_library.to_gpu(index) if on_gpu else index
    if shared is None:
        return FaissIndex(type, reduction, index)
    return FaissIndex(type, reduction, index, (), shared, shared.radius(view))


def extend_index(start: IndexStart, view: RowView, stopped: Callable[[], bool]) -> FaissIndex | None:
    """An index of these rows in cells that are known; None where the rows do not fit there."""
    known = start.known
    if known.cells is None or not known.reduction.fits(view.lengths):
        return None
    index = known.cells.index()
    _fill(index, known.reduction, view, stopped, start)
    copied = 0 if start.places is None else int(np.count_nonzero(start.places >= 0))
    added = len(view.ids) - copied + (known.added if copied else 0)
    return replace(known, index=index, radius=known.cells.radius(view), added=added)


def _train(index: Index, sample: ReducedVectors) -> None:
    """Learn cells and codes from a sample, which is used up: what codes are learned from takes its place."""
    if not (isinstance(index, faiss.IndexIVFScalarQuantizer) and index.by_residual):
        index.train(sample)
        return
    index.train_q1(len(sample), faiss.swig_ptr(sample), False, index.metric_type)
    for some in _pieces(0, len(sample)):
        sample[some] -= index.quantizer.reconstruct_batch(_cells_of(index, sample[some]))
    index.train_encoder(len(sample), faiss.swig_ptr(sample), None)
    index.is_trained = True


def _fill(
    index: Index,
    reduction: L2Reduction,
    view: RowView,
    stopped: Callable[[], bool],
    start: IndexStart | None = None,
) -> None:
    """Add the rows; those that an index of the same cells has are copied from there."""
    lists = faiss.downcast_InvertedLists(index.invlists) if isinstance(index, faiss.IndexIVF) else None
    plain = isinstance(lists, faiss.ArrayInvertedLists)
    new = np.ones(len(view.ids), np.bool_)
    if start is not None and start.places is not None:
        new[start.places[start.places >= 0]] = False
    added = np.flatnonzero(new)

    def pieces() -> Iterator[tuple[slice, ReducedVectors]]:
        for some in _pieces(0, len(added)):
            if stopped():
                raise BuildStopped
            yield some, np.ascontiguousarray(reduction.gallery(view.take(added[some])))

    if not plain:
        for _, rows in pieces():
            index.add(rows)
        return
    cells = np.empty(len(added), np.int64)
    for some, rows in pieces():
        cells[some] = _cells_of(index, rows)
    _make_room(lists, np.bincount(cells, minlength=index.nlist))
    if start is not None and start.places is not None:
        _copy_rows(start.known, start.places, index)
    for some, rows in pieces():
        arrays = rows, added[some], cells[some]  # a pointer keeps none alive
        index.add_core(len(rows), *map(faiss.swig_ptr, arrays))


def _copy_rows(known: FaissIndex, places: Int64[np.ndarray, " g"], index: Index) -> None:
    """Copy the codes of rows from an index of the same cells; they are at other places here."""
    lists = known.index.invlists
    for cell in range(int(index.nlist)):
        size = int(lists.list_size(cell))
        if size == 0:
            continue
        moved = places[faiss.rev_swig_ptr(lists.get_ids(cell), size)]
        codes = faiss.rev_swig_ptr(lists.get_codes(cell), size * index.code_size).reshape(size, -1)
        arrays = moved[moved >= 0], codes[moved >= 0]  # a pointer keeps none alive
        index.invlists.add_entries(cell, len(arrays[0]), *map(faiss.swig_ptr, arrays))
    index.ntotal = int(np.count_nonzero(places >= 0))


def _cells_of(index: Index, rows: ReducedVectors) -> Int64[np.ndarray, " b"]:
    return np.ascontiguousarray(index.quantizer.search(rows, 1)[1][:, 0])


def _make_room(lists: Index, sizes: Int64[np.ndarray, " c"]) -> None:
    """Room for so many rows in each list."""
    for cell, size in enumerate(sizes.tolist()):
        lists.resize(cell, size)
        lists.resize(cell, 0)


def _pieces(start: int, end: int) -> Iterator[slice]:
    return (slice(first, min(first + ROWS_A_STEP, end)) for first in range(start, end, ROWS_A_STEP))
