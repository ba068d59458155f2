"""Cells that several indexes share: rows that come later need no learning, and a query finds its cells once.

The nearest cells of a query are kept for the thread that asked, until it asks for another.
"""

import threading
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from index.engines.faisslib import Index, faiss
from index.engines.reduction import Reduced, Reduction
from multifold.types import Vectors

LINE = 64  # bytes that a processor reads at once


@dataclass(frozen=True, eq=False)
class Nearest:
    """The cells that lie nearest to each query, nearest first."""

    queries: Reduced
    distances: Float32[np.ndarray, "q e"]
    cells: Int64[np.ndarray, "q e"]

    def first(self, effort: int) -> "Nearest":
        """Fewer of them."""
        if effort == self.cells.shape[1]:
            return self
        distances, cells = (np.ascontiguousarray(each[:, :effort]) for each in (self.distances, self.cells))
        return Nearest(self.queries, distances, cells)


class _Last(threading.local):
    """What a thread asked last."""

    queries: Vectors | None = None
    most = 0  # cells that anybody needed for these queries
    nearest: Nearest | None = None


class Cells:
    """What an index has learned, without its rows."""

    def __init__(self, reduction: Reduction, index: Index) -> None:
        self._reduction = reduction
        self._empty = _without_rows(index)
        self._last = _Last()

    def index(self) -> Index:
        """An index of the same cells and codes, and no rows."""
        return _cloned(self._empty)

    def nearest(self, queries: Vectors, effort: int) -> Nearest:
        """So many cells of each query. The same array is the same queries; who asks first asks for all."""
        effort = max(1, min(effort, int(self._empty.nlist)))
        last = self._last
        known = last.nearest if last.queries is queries else None
        if known is None or known.cells.shape[1] < effort:
            known = last.nearest = self._found(queries, max(effort, last.most))
        last.most = max(effort, last.most) if last.queries is queries else effort
        last.queries = queries
        return known.first(effort)

    def _found(self, queries: Vectors, effort: int) -> Nearest:
        reduced = np.ascontiguousarray(self._reduction.queries(queries), np.float32)
        return Nearest(reduced, *self._empty.quantizer.search(reduced, effort))


def aligned(index: Index) -> Index:
    """The same index, its centroids where a processor reads them fastest: from the start of a cache line."""
    cells = faiss.try_extract_index_ivf(index)
    centroids = None if cells is None else faiss.downcast_index(cells.quantizer)
    if not isinstance(centroids, faiss.IndexFlat):
        return index
    values = faiss.rev_swig_ptr(centroids.get_xb(), centroids.ntotal * centroids.d).view(np.uint8)
    space = np.empty(values.nbytes + LINE, np.uint8)
    memory = space[-space.ctypes.data % LINE :][: values.nbytes]
    memory[:] = values
    vector = faiss.MaybeOwnedVectorUInt8
    centroids.codes = vector.create_view(faiss.swig_ptr(memory), memory.nbytes, vector().owner)
    index.referenced_objects = [memory]  # which a view does not keep
    return index


def cells_of(reduction: Reduction, index: Index) -> Cells | None:
    """The cells of an index whose type lets others share them."""
    shares = isinstance(index, faiss.IndexIVFScalarQuantizer | faiss.IndexIVFFlat)
    return Cells(reduction, index) if shares else None


def search(index: Index, nearest: Nearest, count: int, parameters: Index) -> Int64[np.ndarray, "q c"]:
    """Positions of the best rows in these cells, padded with -1."""
    size = len(nearest.queries)
    distances, positions = np.empty((size, count), np.float32), np.empty((size, count), np.int64)
    queries, *rest = (
        faiss.swig_ptr(array)
        for array in (nearest.queries, nearest.cells, nearest.distances, distances, positions)
    )
    index.search_preassigned_c(size, queries, count, *rest, False, parameters)
    return positions


def _without_rows(index: Index) -> Index:
    """A copy of all but the rows, which nobody may search meanwhile."""
    rows, count = index.invlists, index.ntotal
    none = faiss.ArrayInvertedLists(index.nlist, index.code_size)
    index.own_invlists = False
    index.replace_invlists(none, False)
    index.ntotal = 0
    copy = _cloned(index)
    index.replace_invlists(rows, True)
    index.ntotal = count
    return copy


def _cloned(index: Index) -> Index:
    """A copy; centroids that are aligned are the same, not copied."""
    copy = faiss.clone_index(index)
    copy.referenced_objects = getattr(index, "referenced_objects", [])
    return copy
