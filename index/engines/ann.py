"""One FAISS index over the rows of a segment: positions in, positions out.

FAISS numbers rows by position and never changes: no id map, no removal, no selector and no refinement of its
own takes part, each of which gives wrong answers silently with some type. Ids, the dead, filters and exact
scores are the segment's part.
"""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Int64

from index.engines import gpu
from index.engines.cells import Cells, aligned, cells_of
from index.engines.cells import search as search_cells
from index.engines.faisslib import Index, faiss
from index.engines.reduction import Reduction
from index.engines.rowview import RowView
from index.plan import PER_CELL, Plan, PlanError
from multifold.types import Metric, Vectors

PIECE = 2048  # rows added between two looks at whether to stop
TRAINING = 65_536  # rows that codes and cells are learned from, or more if there are many cells
MOST_EF = 2048
KEPT = 64  # ways of asking that need not be made again
EASY = 1 / 8  # of the effort that a type can make


class Stopped(Exception):  # noqa: N818 (not an error: somebody closed the engine)
    """The build was called off."""


@dataclass(frozen=True)
class Setting:
    """How hard to look for `limit` rows: the type's own effort, and candidates for exact rescoring."""

    limit: int
    effort: int
    candidates: int
    recall: float
    seconds: float  # CPU time of one query
    enough: int = 0  # good candidates to answer from; 0: as many as the limit

    @property
    def needed(self) -> int:
        """Good candidates that are enough to answer from."""
        return self.enough or min(self.limit, self.candidates)

    def within(self, share: float) -> "Setting":
        """The setting when only this share of the rows counts: those that do lie farther than others."""
        if share == 1:
            return self
        reach = int(1.2 * self.candidates / share) + 8
        effort = int(np.ceil((2 - share) * self.effort / share))
        enough = max(self.limit, self.candidates * 3 // 4)
        return replace(self, candidates=reach, effort=effort, enough=enough)

    def wider(self, times: int) -> "Setting":
        """The same with a further reach, for as many good candidates."""
        reach, effort = self.candidates * times, self.effort * times
        return replace(self, candidates=reach, effort=effort, enough=self.needed)

    def scaled(self, limit: int) -> "Setting":
        """The setting for another limit: the same up to its own, proportionally harder beyond."""
        if limit <= self.limit:
            return self
        times = limit / self.limit
        effort, candidates = int(np.ceil(self.effort * times)), int(np.ceil(self.candidates * times))
        return replace(self, limit=limit, effort=effort, candidates=candidates, seconds=self.seconds * times)


@dataclass(frozen=True, eq=False)
class Ann:
    """An index of one type with the settings that reach the target."""

    type: str
    reduction: Reduction
    index: Index
    settings: tuple[Setting, ...] = ()  # by rising limit
    cells: Cells | None = None  # that other indexes may share
    turn: threading.Lock = field(default_factory=threading.Lock)  # a GPU's resources serve one thread

    def setting(self, limit: int) -> Setting:
        """How hard to look for `limit` rows."""
        enough = (setting for setting in self.settings if setting.limit >= limit)
        return next(enough, self.settings[-1]).scaled(limit)

    def candidates(self, queries: Vectors, count: int, effort: int) -> Int64[np.ndarray, "q c"]:
        """Positions of probable neighbours, nearest first, padded with -1."""
        parameters = self._asking(effort, count)
        if self.cells is not None:
            return search_cells(self.index, self.cells.nearest(queries, effort), count, parameters)
        reduced = self.reduction.queries(queries)
        with self.turn if gpu.on_gpu(self.index) else nullcontext():
            _, positions = self.index.search(reduced, count, params=parameters)
        return np.asarray(positions, np.int64)

    @cached_property
    def _asking(self) -> Callable[[int, int], Index]:
        return lru_cache(KEPT)(asking(self.index))

    def most(self) -> int:
        """How many candidates one search can give."""
        return gpu.MOST_NEIGHBOURS if gpu.on_gpu(self.index) else int(self.index.ntotal)

    def efforts(self) -> tuple[int, int]:
        """The least and the most effort that make sense; equal where the type knows none."""
        cells = faiss.try_extract_index_ivf(self.index)
        if cells is not None or hasattr(self.index, "nprobe"):
            return 1, int((cells or self.index).nlist)
        return (16, MOST_EF) if _graph(self.index) or gpu.is_a(self.index, "GpuIndexCagra") else (0, 0)

    @property
    def strained(self) -> bool:
        """Whether it has to look so hard that another type may be faster."""
        return self.settings[0].effort > EASY * self.efforts()[1]

    def seconds(self) -> float:
        """CPU time of a query of each size that was measured."""
        return sum(setting.seconds for setting in self.settings)

    def bytes(self) -> int:
        """What the index takes in memory, without the vectors that scores are made of."""
        return len(faiss.serialize_index(gpu.to_cpu(self.index)))


@dataclass(frozen=True)
class Start:
    """What an index can be made from: cells that are known, and the first rows, which are there already."""

    known: Ann
    rows: int


def check(plan: Plan, dim: int, *, on_gpu: bool) -> None:
    """Refuse a type by name that nobody can build, before there are rows."""
    for name in plan.ladder(TRAINING, gpu=on_gpu):
        if name == gpu.CAGRA and not on_gpu:
            raise PlanError("CAGRA lives on a GPU: ask for the device gpu, or for an HNSW type.")
        if name != gpu.CAGRA:
            _empty(name, Reduction(dim, None, lifted=False).width, "l2")


def construct(
    type: str,  # noqa: A002 (what it is called here)
    view: RowView,
    reduction: Reduction,
    *,
    on_gpu: bool,
    stopped: Callable[[], bool],
    metric: Metric = "l2",
) -> Ann:
    """Train and fill an index of this type; segments are built for L2, inner products are for comparison."""
    if type == gpu.CAGRA:
        return Ann(type, reduction, gpu.cagra(reduction.gallery(view.vectors)))
    index = _empty(type, reduction.width, metric)
    cells = faiss.try_extract_index_ivf(index)
    learned = max(TRAINING, 0 if cells is None else PER_CELL * int(cells.nlist))
    sample = np.random.default_rng(0).permutation(len(view.ids))[:learned]
    index.train(reduction.gallery(view.vectors[np.sort(sample)]))
    shared = None if on_gpu else cells_of(reduction, aligned(index))
    _fill(index, reduction, view, stopped)
    return Ann(type, reduction, gpu.to_gpu(index) if on_gpu else index, cells=shared)


def extended(start: Start, view: RowView, stopped: Callable[[], bool]) -> Ann | None:
    """An index of these rows in cells that are known; None where the rows do not fit there."""
    known = start.known
    if known.cells is None or not known.reduction.fits(view.lengths):
        return None
    index = known.cells.index()
    known.index.copy_subset_to(index, faiss.InvertedLists.SUBSET_TYPE_ID_RANGE, 0, start.rows)
    _fill(index, known.reduction, view, stopped)
    return replace(known, index=index)


def _fill(index: Index, reduction: Reduction, view: RowView, stopped: Callable[[], bool]) -> None:
    """Add the rows that are not there yet."""
    for start in range(index.ntotal, len(view.ids), PIECE):
        if stopped():
            raise Stopped
        index.add(reduction.gallery(view.vectors[start : start + PIECE]))


def _empty(type: str, width: int, metric: Metric) -> Index:  # noqa: A002
    try:
        compared = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        index = faiss.index_factory(width, type, compared)
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2]
        raise PlanError(f"FAISS cannot make an index {type!r} for vectors of {width}: {reason}.") from error
    if isinstance(index, (faiss.IndexRefine, faiss.IndexIDMap)):
        raise PlanError(
            f"The index {type!r} refines or maps ids itself. Segments do both for every type: leave it out."
        )
    return index


def asking(index: Index) -> Callable[[int, int], Index]:
    """How FAISS is told to look this hard for so many rows; to None where a type knows no effort."""
    if isinstance(index, faiss.IndexPreTransform):
        inner, wrapped = asking(faiss.downcast_index(index.index)), faiss.SearchParametersPreTransform
        return lambda effort, count: wrapped(index_params=inner(effort, count))
    if isinstance(index, faiss.IndexHNSW):
        return lambda effort, count: faiss.SearchParametersHNSW(efSearch=max(effort, count))
    if gpu.is_a(index, "GpuIndexCagra"):
        return lambda effort, count: faiss.SearchParametersCagra(itopk_size=-(-max(effort, count) // 32) * 32)
    if hasattr(index, "nprobe"):
        cells = int(index.nlist)
        return lambda effort, _: faiss.SearchParametersIVF(nprobe=max(1, min(effort, cells)))
    return lambda *_: None


def _graph(index: Index) -> bool:
    if isinstance(index, faiss.IndexPreTransform):
        return _graph(faiss.downcast_index(index.index))
    return isinstance(index, faiss.IndexHNSW)


def use_threads(count: int) -> None:
    """How many cores FAISS may use when this thread calls it."""
    faiss.omp_set_num_threads(count)
