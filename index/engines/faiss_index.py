"""One FAISS index over the rows of a segment, and the cells that several indexes share.

FAISS numbers rows by position and never changes: no id map, no removal and no refinement of its own takes
part, each of which gives wrong answers silently with some type, and no selector but in cells that several
indexes can share. Segments do all that.
"""

import math
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt8

from index.contracts import IndexPlan, IndexPlanError
from index.engines import faiss_library
from index.engines.cell_distances import CellDistances, cells_within_reach, squared_distances
from index.engines.exact_engine import RowView
from index.engines.faiss_library import Index, L2Reduction, ReducedVectors, faiss
from index.engines.search_setting import OrdinaryReach, SearchSetting
from multifold.types import Vectors

# Of the numbers in a type, by what stands before: cells, neighbours, bits of a code, a multi-index.
LIMITS_IN_TYPE = {"IVF": (1, 1 << 18), "x": (1, 12), "IMI": (2, 2)}
LIMITS_IN_TYPE |= dict.fromkeys(("HNSW", "_HNSW", "NSG"), (2, 512))
MOST_ELSE_IN_TYPE = 4096
LINE = 64  # bytes that a processor reads at once
RADIUS_ROWS = 2048  # rows that the radius of a cell is measured with


Selection: TypeAlias = UInt8[np.ndarray, " _"]  # a bit for each row, that of the first lowest


class _Last(threading.local):
    queries: Vectors | None = None
    distances: CellDistances | None = None


class SharedCells:
    """What an index has learned, without its rows."""

    def __init__(self, reduction: L2Reduction, index: Index) -> None:
        self._reduction = reduction
        self._empty = _without_rows(index)
        self.count = int(index.nlist)
        self._centres = _centroids(self._empty.quantizer)
        self._squares = np.einsum("nd,nd->n", self._centres, self._centres)
        self._last = _Last()

    def index(self) -> Index:
        """An index of the same cells and codes, and no rows."""
        return _cloned(self._empty)

    def radius(self, rows: RowView) -> float:
        """The squared distance of rows from the centre of their cell, on average."""
        sample = self._reduction.gallery(rows.sample(RADIUS_ROWS))
        return float(self._empty.quantizer.search(sample, 1)[0].mean()) if len(sample) else 0.0

    def distances(self, queries: Vectors) -> CellDistances:
        """From each query to every cell. The same array is the same queries, and is compared once."""
        last = self._last
        if last.queries is not queries or last.distances is None:
            factors = self._reduction.factors(queries)
            reduced = np.ascontiguousarray(self._reduction.scaled(queries, factors), np.float32)
            if len(reduced) == 1:  # a product of matrices copies all centres
                squares = squared_distances(reduced[0], self._centres)[None]
            else:
                squares = (-2 * reduced) @ self._centres.T
                squares += self._squares
                squares += np.einsum("qd,qd->q", reduced, reduced)[:, None]
            last.queries, last.distances = queries, CellDistances(reduced, factors, squares)
        return last.distances


def _centroids(quantizer: Index) -> Float32[np.ndarray, "n w"]:
    """The centres of all cells, in place where they are plain."""
    plain = faiss.downcast_index(quantizer)
    if not isinstance(plain, faiss.IndexFlat):
        return np.asarray(quantizer.reconstruct_n(0, quantizer.ntotal))
    values: Float32[np.ndarray, " _"] = faiss.rev_swig_ptr(plain.get_xb(), plain.ntotal * plain.d)
    return values.reshape(plain.ntotal, plain.d)


def align_centroids(index: Index) -> Index:
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


def shared_cells_of(reduction: L2Reduction, index: Index) -> SharedCells | None:
    """The cells of an index whose type lets others share them."""
    plain = isinstance(index, faiss.IndexIVFScalarQuantizer | faiss.IndexIVFFlat)
    return SharedCells(reduction, index) if plain and index.nlist <= MOST_COMPARED else None


def search_cells(
    index: Index, queries: ReducedVectors, cells: Int64[np.ndarray, "q e"], count: int, parameters: Index
) -> Int64[np.ndarray, "q c"]:
    """Positions of the best rows in these cells (-1: none), padded with -1."""
    size = len(queries)
    cells = np.ascontiguousarray(cells)
    unused = np.zeros(cells.shape, np.float32)  # distances of cells, which codes of residuals need
    distances = np.empty((size, count), np.float32)
    positions = np.empty((size, count), np.int64)
    index.search_preassigned_c(
        size,
        faiss.swig_ptr(queries),
        count,
        faiss.swig_ptr(cells),
        faiss.swig_ptr(unused),
        faiss.swig_ptr(distances),
        faiss.swig_ptr(positions),
        False,
        parameters,
    )
    return positions


def _without_rows(index: Index) -> Index:
    """A copy of all but the rows, which must not be searched meanwhile."""
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


MOST_COMPARED = 1 << 15  # cells whose centres are all compared with each query
CHECKED = 65_536  # rows for which the types of a plan are checked
LEAST_EF, MOST_EF, CAGRA_STEP = 16, 2048, 32
CACHED_PARAMETERS = 1024  # ways of asking that need not be made again
ID_BYTES, FLOAT_BYTES = 8, 4
HEAVY, BY_CELLS = 1 << 22, 1  # numbers that one query scores; how FAISS calls threads that share its cells
EASY_SHARE = 1 / 8  # of the effort that a type can make


class BuildStopped(Exception):  # noqa: N818 (not an error: the engine was closed)
    """The build was called off."""


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An index of one type with the settings that reach the target."""

    type: str
    reduction: L2Reduction
    index: Index
    settings: tuple[SearchSetting, ...] = ()  # by rising limit
    cells: SharedCells | None = None  # that other indexes may share
    radius: float = 0.0  # of a cell: the squared distance of a row from its centre, on average
    added: int = 0  # rows that came after the cells were learned
    turn: threading.Lock = field(default_factory=threading.Lock)  # a GPU's resources serve one thread

    def __post_init__(self) -> None:
        if self.heavy:
            self.index.parallel_mode = BY_CELLS

    @cached_property
    def heavy(self) -> bool:
        """Whether one query scores so many codes that it pays for threads to share them."""
        if self.cells is None or not self.settings:
            return False
        visited, numbers = self.settings[0].visited, self.index.ntotal * self.reduction.dim
        return bool(visited * numbers >= HEAVY * self.cells.count)

    def setting(self, limit: int) -> SearchSetting:
        enough = (setting for setting in self.settings if setting.limit >= limit)
        return next(enough, self.settings[-1]).scaled(limit)

    def setting_among(self, limit: int, share: float, *, filtered: bool) -> SearchSetting:
        """The same where only this share of the rows counts: they lie as far as so many more of all rows do.

        Cells select them. Those that a filter allows may lie to one side of the query, so the longest reach
        is expected of them.
        """
        own = self.setting(limit)
        if share == 1:
            return own
        if not filtered and self.cells is not None:
            return replace(own, effort=math.ceil(own.effort / share))
        among = own.within(share)
        if self.cells is None:
            return among
        effort = min(among.effort, self.setting(math.ceil(limit / share)).effort)
        near = np.inf if own.ordinary is None else own.ordinary.near
        reach = OrdinaryReach(near, own.longest_reach)
        strange = None if own.strange is None else replace(own.strange, reach=own.longest_reach)
        return replace(own, effort=effort, far=None, ordinary=reach, strange=strange)

    def candidates(
        self, queries: Vectors, count: int, effort: int, selected: Selection | None = None
    ) -> Int64[np.ndarray, "q c"]:
        """Positions of probable neighbours, padded with -1; in the nearest cells perhaps of some rows."""
        if self.cells is not None:
            return self.candidates_in(queries, self.cells.distances(queries).nearest(effort), count, selected)
        reduced = self.reduction.queries(queries)
        with self.turn if faiss_library.is_on_gpu(self.index) else nullcontext():
            _, positions = self.index.search(reduced, count, params=self._asking(effort, count))
        return np.asarray(positions, np.int64)

    def cells_within_reach(
        self, queries: Vectors, last: Float32[np.ndarray, " q"], how: SearchSetting
    ) -> Int64[np.ndarray, "q e"] | None:
        """The other cells that may well hold a row nearer than `last`, padded with -1; None: none does."""
        if self.cells is None or how.ordinary is None:
            return None
        distances = self.cells.distances(queries)
        cells = cells_within_reach(
            distances.squares,
            distances.nearest(how.effort)[:, -1],
            last,
            self.radius,
            how.ordinary.near if how.strange is not None else np.inf,
            how.ordinary.reach,
            0.0 if how.strange is None else how.strange.reach,
            how.strange is not None and how.strange.further > 1,
        )
        return cells if cells.shape[1] else None

    def candidates_in(
        self, queries: Vectors, cells: Int64[np.ndarray, "q e"], count: int, selected: Selection | None = None
    ) -> Int64[np.ndarray, "q c"]:
        """Positions of probable neighbours in these cells (-1: none), perhaps of some rows; padded, too."""
        assert self.cells is not None
        reduced = self.cells.distances(queries).queries
        parameters = self._asking(cells.shape[1], count)
        if selected is not None:
            selector = faiss.IDSelectorBitmap(selected)
            parameters = faiss.SearchParametersIVF(nprobe=cells.shape[1], sel=selector)
        return search_cells(self.index, reduced, cells, count, parameters)

    def distances(self, queries: Vectors, scores: Float32[np.ndarray, " q"]) -> Float32[np.ndarray, " q"]:
        """The squared distances, as the index has them, of rows that score so much."""
        known = None if self.cells is None else self.cells.distances(queries).factors
        factors = self.reduction.factors(queries) if self.cells is None else known
        return self.reduction.distances(factors, scores)

    def cells_of_rows(self) -> Int32[np.ndarray, " g"]:
        assert self.cells is not None
        found, lists = np.empty(self.index.ntotal, np.int32), self.index.invlists
        for cell in range(self.cells.count):
            if size := lists.list_size(cell):
                found[faiss.rev_swig_ptr(lists.get_ids(cell), size)] = cell
        return found

    @cached_property
    def _asking(self) -> Callable[[int, int], Index]:
        return lru_cache(CACHED_PARAMETERS)(search_effort(self.index)[2])

    @cached_property
    def most(self) -> int:
        """How many candidates one search can give."""
        return faiss_library.most_neighbours(self.index)

    @cached_property
    def efforts(self) -> tuple[int, int]:
        """The least and the most effort that make sense; equal where the type knows none."""
        return search_effort(self.index)[:2]

    @property
    def strained(self) -> bool:
        """Whether it has to look so hard that another type may be faster."""
        first = self.settings[0]
        return max(first.visited, first.effort) > EASY_SHARE * self.efforts[1]

    @property
    def recall(self) -> float:
        """The least that was measured."""
        return min(setting.recall for setting in self.settings)

    def seconds(self) -> float:
        """CPU time of a query of each size that was measured."""
        return sum(setting.seconds for setting in self.settings)

    def bytes(self) -> int:
        """What the index takes in memory, without the vectors that scores are made of."""
        cells = faiss.try_extract_index_ivf(self.index)
        if cells is not None and self.cells is not None:  # plain ones need not be copied
            row = cells.code_size + ID_BYTES
            return int(cells.ntotal * row + cells.nlist * cells.d * FLOAT_BYTES)
        if faiss_library.is_cagra(self.index):
            links = faiss_library.LINKS
            return int(self.index.ntotal * (self.index.d + links) * FLOAT_BYTES)
        return len(faiss.serialize_index(faiss_library.to_cpu(self.index)))


@dataclass(frozen=True)
class IndexStart:
    """What an index can be made from: cells that exist, and the places that rows there are to have."""

    known: FaissIndex
    places: Int64[np.ndarray, " g"] | None = None  # NO_ROW: it is left out; None: all are

    def gives_most_of(self, rows: RowView) -> bool:
        """Whether its settings were chosen for three in four of these rows or more."""
        given = 0 if self.places is None else int(np.count_nonzero(self.places >= 0))
        return 4 * given >= 3 * len(rows) and bool(self.known.settings)


def check_types(plan: IndexPlan, dim: int, *, on_gpu: bool) -> None:
    """Refuse a type by name that cannot be built, before there are rows."""
    for name in plan.ladder(CHECKED, gpu=on_gpu):
        if name == faiss_library.CAGRA and not on_gpu:
            raise IndexPlanError("CAGRA lives on a GPU: ask for the device gpu, or for an HNSW type.")
        if name != faiss_library.CAGRA:
            empty_index(name, L2Reduction(dim, None, lifted=False).width)


def _check_sizes(type: str) -> None:  # noqa: A002
    """Refuse numbers that FAISS would take, and then all the memory, or years."""
    for before, digits in re.findall(r"([A-Za-z_]*)([0-9]+)", type):
        least, most = LIMITS_IN_TYPE.get(before, (0, MOST_ELSE_IN_TYPE))
        if not least <= int(digits) <= most:
            raise IndexPlanError(
                f"The index {type!r} asks for {before}{digits}; from {least} to {most} is possible."
            )


def empty_index(type: str, width: int) -> Index:  # noqa: A002
    """An index of a type that has learned nothing; one that FAISS cannot make is refused."""
    _check_sizes(type)
    try:
        index = faiss.index_factory(width, type)
    except (RuntimeError, MemoryError) as error:
        why = str(error).rpartition(": ")[2]
        raise IndexPlanError(f"FAISS cannot make an index {type!r} for vectors of {width}: {why}.") from error
    if isinstance(index, (faiss.IndexRefine, faiss.IndexIDMap)):
        raise IndexPlanError(
            f"The index {type!r} refines or maps ids itself. Segments do both for every type: leave it out."
        )
    return index


def search_effort(index: Index) -> tuple[int, int, Callable[[int, int], Index]]:
    """The least effort, the most, and the parameters of a search by effort and count of rows.

    Where a type has no effort, 0 and None.
    """
    if isinstance(index, faiss.IndexPreTransform):
        least, most, inner = search_effort(faiss.downcast_index(index.index))
        wrapped = faiss.SearchParametersPreTransform
        return least, most, lambda effort, count: wrapped(index_params=inner(effort, count))
    if isinstance(index, faiss.IndexHNSW):
        graph = faiss.SearchParametersHNSW
        return LEAST_EF, MOST_EF, lambda effort, count: graph(efSearch=max(effort, count))
    if faiss_library.is_cagra(index):
        cagra, step = faiss.SearchParametersCagra, CAGRA_STEP
        return step, MOST_EF, lambda effort, count: cagra(itopk_size=-(-max(effort, count) // step) * step)
    if hasattr(index, "nprobe"):
        gpu = faiss_library.is_on_gpu(index)
        cells = min(int(index.nlist), faiss_library.MOST_ON_GPU) if gpu else int(index.nlist)
        return 1, cells, lambda effort, _: faiss.SearchParametersIVF(nprobe=max(1, min(effort, cells)))
    return 0, 0, lambda *_: None
