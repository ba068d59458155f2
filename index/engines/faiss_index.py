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
from jaxtyping import Float32, Int64, UInt8

from index.contracts import IndexPlan, IndexPlanError
from index.engines import faiss_library
from index.engines.exact_engine import RowView
from index.engines.faiss_library import Index, L2Reduction, ReducedVectors, faiss
from multifold.types import Vectors

# Of the numbers in a type, by what stands before: cells, neighbours, bits of a code, a multi-index.
LIMITS_IN_TYPE = {"IVF": (1, 1 << 18), "x": (1, 12), "IMI": (2, 2)}
LIMITS_IN_TYPE |= dict.fromkeys(("HNSW", "_HNSW", "NSG"), (2, 512))
MOST_ELSE_IN_TYPE = 4096
LINE = 64  # bytes that a processor reads at once
RADIUS_ROWS = 2048  # rows that the radius of a cell is measured with


@dataclass(frozen=True, eq=False)
class NearestCells:
    """The cells nearest to each query, nearest first."""

    queries: ReducedVectors
    factors: Float32[np.ndarray, " q"] | None
    distances: Float32[np.ndarray, "q e"]
    cells: Int64[np.ndarray, "q e"]


Selection: TypeAlias = UInt8[np.ndarray, " _"]  # a bit for each row, that of the first lowest


class _Last(threading.local):
    queries: Vectors | None = None
    most = 0  # cells that were needed for these queries
    nearest: NearestCells | None = None


class SharedCells:
    """What an index has learned, without its rows."""

    def __init__(self, reduction: L2Reduction, index: Index) -> None:
        self._reduction = reduction
        self._empty = _without_rows(index)
        self.count = int(index.nlist)
        self._last = _Last()

    def index(self) -> Index:
        """An index of the same cells and codes, and no rows."""
        return _cloned(self._empty)

    def radius(self, rows: RowView) -> float:
        """The squared distance of rows from the centre of their cell, on average."""
        sample = self._reduction.gallery(rows.sample(RADIUS_ROWS))
        return float(self._empty.quantizer.search(sample, 1)[0].mean()) if len(sample) else 0.0

    def nearest(self, queries: Vectors, effort: int) -> NearestCells:
        """So many cells of each query. The same array is the same queries; who asks first asks for all."""
        effort = max(1, min(effort, self.count))
        last = self._last
        nearest = last.nearest if last.queries is queries else None
        if nearest is None or nearest.cells.shape[1] < effort:
            factors = self._reduction.factors(queries)
            reduced = np.ascontiguousarray(self._reduction.scaled(queries, factors), np.float32)
            answer = self._empty.quantizer.search(reduced, max(effort, last.most))
            nearest = last.nearest = NearestCells(reduced, factors, *answer)
        last.most = max(effort, last.most) if last.queries is queries else effort
        last.queries = queries
        if effort == nearest.cells.shape[1]:
            return nearest
        return replace(nearest, distances=nearest.distances[:, :effort], cells=nearest.cells[:, :effort])


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
    shares = isinstance(index, faiss.IndexIVFScalarQuantizer | faiss.IndexIVFFlat)
    return SharedCells(reduction, index) if shares else None


def search_cells(
    index: Index, nearest: NearestCells, effort: int, count: int, parameters: Index
) -> Int64[np.ndarray, "q c"]:
    """Positions of the best rows in the nearest of these cells, padded with -1."""
    size = len(nearest.queries)
    cells, centres = (np.ascontiguousarray(each[:, :effort]) for each in (nearest.cells, nearest.distances))
    distances, positions = np.empty((size, count), np.float32), np.empty((size, count), np.int64)
    arrays = (nearest.queries, cells, centres, distances, positions)
    queries, *rest = map(faiss.swig_ptr, arrays)
    index.search_preassigned_c(size, queries, count, *rest, False, parameters)
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


CHECKED = 65_536  # rows for which the types of a plan are checked
LEAST_EF, MOST_EF, CAGRA_STEP = 16, 2048, 32
CACHED_PARAMETERS = 64  # ways of asking that need not be made again
COSINE_STEPS = 1.2 ** np.arange(15)  # chance brings about the first, in so many dimensions
ID_BYTES, FLOAT_BYTES = 8, 4
HEAVY, BY_CELLS = 1 << 22, 1  # numbers that one query scores; how FAISS calls threads that share its cells
SMALL = 1e-10  # instead of a division by 0
ONE_SIDED = 2  # times the cosine that is enough where neighbours lie on all sides
EASY_SHARE = 1 / 8  # of the effort that a type can make


class BuildStopped(Exception):  # noqa: N818 (not an error: the engine was closed)
    """The build was called off."""


@dataclass(frozen=True)
class SearchSetting:
    """How hard to look for `limit` rows: the type's own effort, and candidates for exact rescoring."""

    limit: int
    effort: int
    candidates: int
    recall: float
    seconds: float  # CPU time of one query
    enough: int = 0  # good candidates to answer from; 0: as many as the limit
    doubt: float | None = None  # an answer that is no surer than this is looked for further
    cosine: float | None = None  # in cells whose rows need no larger one to be nearer; None: in all rows
    further: int = 1  # times as many candidates are scored there
    hardest: str = ""  # the kind of probes that found least, whose recall this is

    @property
    def needed(self) -> int:
        """Good candidates that are enough to answer from."""
        return self.enough or min(self.limit, self.candidates)

    def within(self, share: float) -> "SearchSetting":
        """The setting when only this share of the rows counts: those that do are farther apart."""
        if share == 1:
            return self
        effort = int(np.ceil((2 - share) * self.effort / share))
        reach = int(1.2 * self.candidates / share) + 8
        enough = max(self.limit, self.candidates * 3 // 4)
        return replace(self, candidates=reach, effort=effort, enough=enough)

    def wider(self, times: int) -> "SearchSetting":
        """The same with a further reach, for as many good candidates."""
        reach, effort = self.candidates * times, self.effort * times
        return replace(self, candidates=reach, effort=effort, enough=self.needed)

    def scaled(self, limit: int) -> "SearchSetting":
        """The setting for another limit: the same up to its own, proportionally harder beyond."""
        if limit <= self.limit:
            return self
        times = limit / self.limit
        effort, candidates = int(np.ceil(self.effort * times)), int(np.ceil(self.candidates * times))
        return replace(self, limit=limit, effort=effort, candidates=candidates, seconds=self.seconds * times)


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An index of one type with the settings that reach the target."""

    type: str
    reduction: L2Reduction
    index: Index
    settings: tuple[SearchSetting, ...] = ()  # by rising limit
    cells: SharedCells | None = None  # that other indexes may share
    radius: float = 0.0  # of a cell: the squared distance of a row from its centre, on average
    turn: threading.Lock = field(default_factory=threading.Lock)  # a GPU's resources serve one thread

    def __post_init__(self) -> None:
        if self.heavy:
            self.index.parallel_mode = BY_CELLS

    @cached_property
    def heavy(self) -> bool:
        """Whether one query scores so many codes that it pays for threads to share them."""
        if self.cells is None or not self.settings:
            return False
        effort, numbers = self.settings[0].effort, self.index.ntotal * self.reduction.dim
        return bool(effort * numbers >= HEAVY * self.cells.count)

    def setting(self, limit: int) -> SearchSetting:
        """How hard to look for `limit` rows."""
        enough = (setting for setting in self.settings if setting.limit >= limit)
        return next(enough, self.settings[-1]).scaled(limit)

    def setting_among(self, limit: int, share: float, *, selected: bool) -> SearchSetting:
        """The same where only this share of the rows counts.

        If such rows are selected, all candidates are, and they lie as far as so many more of all rows do. As
        they may lie to one side of the query, each answer that larger cosines would change is not sure.
        """
        own = self.setting(limit)
        among = own.within(share)
        if not selected:
            return among
        if own.doubt is None or own.cosine is None:
            return replace(own, effort=among.effort)
        effort, cosine = self.setting(math.ceil(limit / share)).effort, min(1.0, ONE_SIDED * own.cosine)
        return replace(own, effort=min(effort, among.effort), doubt=max(own.doubt, cosine), cosine=cosine)

    def candidates(
        self, queries: Vectors, count: int, effort: int, selected: Selection | None = None
    ) -> Int64[np.ndarray, "q c"]:
        """Positions of probable neighbours, nearest first, padded with -1; in cells perhaps of some rows."""
        parameters = self._asking(effort, count)
        if self.cells is not None:
            nearest = self.cells.nearest(queries, effort + 1)  # one more, to know how sure the answer is
            if selected is not None:
                selector = faiss.IDSelectorBitmap(selected)
                parameters = faiss.SearchParametersIVF(nprobe=parameters.nprobe, sel=selector)
            return search_cells(self.index, nearest, effort, count, parameters)
        reduced = self.reduction.queries(queries)
        with self.turn if faiss_library.is_on_gpu(self.index) else nullcontext():
            _, positions = self.index.search(reduced, count, params=parameters)
        return np.asarray(positions, np.int64)

    def sureness(self, queries: Vectors, last: Float32[np.ndarray, " q"], effort: int) -> list[float]:
        """How sure answers are whose last rows score so much.

        It is the cosine that a row of the next cell needs to be nearer than the last row; without cells, the
        nearness of that row. Plain floats are faster than arrays for the few queries of a search.
        """
        if self.cells is None:
            return [-one for one in self.reduction.distances(self.reduction.factors(queries), last).tolist()]
        if effort >= self.cells.count:
            return [math.inf] * len(queries)
        nearest, radius = self.cells.nearest(queries, effort + 1), self.radius
        centres = nearest.distances[:, effort].tolist()
        rows = self.reduction.distances(nearest.factors, last).tolist()
        return [
            (centre + radius - row) / (2 * math.sqrt(abs(centre) * radius) + SMALL)
            for centre, row in zip(centres, rows, strict=True)
        ]

    def efforts_within(
        self, queries: Vectors, last: Float32[np.ndarray, " q"], cosine: float | None
    ) -> Int64[np.ndarray, " q"] | None:
        """Up to the last cell whose rows need no larger cosine to be nearer; None: that says nothing here."""
        if self.cells is None or cosine is None:
            return None
        nearest = self.cells.nearest(queries, self.cells.count)
        centres, rows = nearest.distances, self.reduction.distances(nearest.factors, last)[:, None]
        needed = (centres + self.radius - rows) / (2 * np.sqrt(np.abs(centres) * self.radius) + SMALL)
        near = needed <= cosine
        near[:, 0] = True
        return np.asarray(self.cells.count - near[:, ::-1].argmax(axis=1), np.int64)

    def cosines(self) -> list[float]:
        """How far to look for what answers that are not sure may have missed, rising."""
        return [] if self.cells is None else (self.reduction.dim**-0.5 * COSINE_STEPS).clip(max=1).tolist()

    @cached_property
    def _asking(self) -> Callable[[int, int], Index]:
        return lru_cache(CACHED_PARAMETERS)(search_effort(self.index)[2])

    @cached_property
    def most(self) -> int:
        """How many candidates one search can give."""
        return faiss_library.most_neighbours(self.index)

    def efforts(self) -> tuple[int, int]:
        """The least and the most effort that make sense; equal where the type knows none."""
        return search_effort(self.index)[:2]

    @property
    def strained(self) -> bool:
        """Whether it has to look so hard that another type may be faster."""
        return self.settings[0].effort > EASY_SHARE * self.efforts()[1]

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
            return int(cells.ntotal * (cells.code_size + ID_BYTES) + cells.nlist * cells.d * FLOAT_BYTES)
        if faiss_library.is_cagra(self.index):
            links = faiss_library.LINKS
            return int(self.index.ntotal * (self.index.d + links) * FLOAT_BYTES)
        return len(faiss.serialize_index(faiss_library.to_cpu(self.index)))


@dataclass(frozen=True)
class IndexStart:
    """What an index can be made from: cells that exist, and the first rows, which are in it already."""

    known: FaissIndex
    rows: int


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
