"""Builds the index of a segment: types are tried, and search settings are chosen by measured recall.

Queries of the other side are apart from the rows (the modality gap) and two to four times harder than rows
are; without any, rows are asked for each other.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32

from index.contracts import FLAT, EngineKey, IndexEngine, IndexPlan, Space
from index.engines import faiss_library, index_build
from index.engines.cell_tuning import CellTuner
from index.engines.exact_engine import RowView
from index.engines.faiss_index import (
    FLOAT_BYTES,
    ID_BYTES,
    BuildStopped,
    FaissIndex,
    IndexStart,
)
from index.engines.faiss_library import faiss, reduction_for
from index.engines.merging import FIRST_CELLS
from index.engines.search_setting import SearchSetting
from index.engines.segments import UNBUILT, RejectedType, Segment, SegmentReport, StepTimes
from index.engines.tuning import (
    ProbeTruth,
    probe_truths,
    secure_setting,
    settings_do,
    tune_setting,
    unlike_queries,
)
from multifold.scores import apply_signs
from multifold.types import SIDES, Aspect, Features, Metric, Side, Vector, Vectors

log = logging.getLogger(__name__)

LIMITS = (10, 100)  # answers of these sizes are measured; in between and beyond the effort is scaled
MOST_PROBES = 256
FEW_PROBES = 96  # that check settings which were chosen for most of the rows
SUM_BYTES = 5  # of a row in a file, and whether it was compared
ROWS_FOR_A_HIT = 10  # rows for each row of a measured answer
FIRST_INDEX_TYPES = ("RaBitQfs", "SQ8")  # nothing to learn but a mean: thousands of rows in a moment
FIRST_INDEX_PROBES = 64
MANY_WAITING = 32_768  # rows for which learning a few cells pays at once
NOTHING: Mapping[str, Vectors] = {}
Truths: TypeAlias = list[tuple[ProbeTruth, ...]]  # of probes of each kind, for each size of an answer
UNLIKE_SHARE = 4  # of so many usual probes one of each other kind


def held_bytes(rows: RowView) -> float:
    """What a row takes in memory, without its index."""
    dim = rows.vectors.shape[1]
    return float(ID_BYTES + FLOAT_BYTES + (FLOAT_BYTES * dim if rows.file is None else SUM_BYTES))


def file_bytes(rows: RowView) -> float:
    """What a row takes in a file of vectors."""
    return 0.0 if rows.file is None else float(rows.vectors.shape[1] * rows.vectors.itemsize)


@dataclass(frozen=True)
class SegmentBuilder:
    """Builds the parts of one engine. `ask` gives real queries, or None while there are none."""

    metric: Metric
    plan: IndexPlan
    ask: Callable[[int], Vectors | None]
    signs: Vector | None
    threads: int
    stopped: Callable[[], bool]

    def build(self, rows: RowView, start: IndexStart | None, steps: StepTimes) -> Segment:
        """Seal living rows, in known cells first; below the target the next type is tried, at last none."""
        begun = time.perf_counter()
        faiss.omp_set_num_threads(self.threads)
        on_gpu = faiss_library.uses_gpu(self.plan.device)
        codes = rows.file is not None
        types = self.plan.ladder(len(rows), gpu=on_gpu, codes=codes)
        known = start and self._filled(start, rows, steps)
        truths = self._probed(rows, FEW_PROBES, steps) if start and start.gives_most_of(rows) else []
        ann = known and truths and self._checked(known, truths, steps)
        if not ann:
            truths = self._probed(rows, MOST_PROBES, steps) if start or types[0] != FLAT else []
            ann = known and self._tuned_enough(known, truths, steps)
        probes = truths[0][0] if truths else None
        built, missed = [ann] if ann else [], list[RejectedType]()
        for name in types[:-1]:
            if built and (codes or start or not built[-1].strained):
                break
            most = min(map(FaissIndex.seconds, built), default=np.inf)
            ann = self._tried(name, truths, steps, most, on_gpu=on_gpu)
            if ann.recall >= self.plan.recall:
                built.append(ann)
            elif not built:
                missed.append(RejectedType(name, ann.recall))
        best = min(built, key=FaissIndex.seconds, default=None)
        report = SegmentReport(
            FLAT if best is None else best.type,
            len(rows),
            self.plan.recall,
            0 if probes is None else len(probes.queries),
            "nothing" if probes is None else probes.kind,
            () if best is None else best.settings,
            held_bytes(rows) + (0 if best is None else best.bytes() / max(1, len(rows))),
            time.perf_counter() - begun,
            tuple(missed),
            file_bytes(rows),
            steps.seconds,
        )
        log.log(logging.WARNING if missed else logging.INFO, "sealed %s", report)
        return Segment(rows, best, report)

    def wait(self, rows: RowView) -> Segment:
        """Rows that were filled in, each of which is scored until their index is built."""
        size, apart = held_bytes(rows), file_bytes(rows)
        return Segment(
            rows, None, SegmentReport(FLAT, len(rows), UNBUILT, 0, "nothing", (), size, 0.0, (), apart)
        )

    def hasten(self, rows: RowView, start: IndexStart | None, steps: StepTimes) -> Segment:
        """Rows that wait to be sealed, with an index that is made quickly, measured by fewer probes."""
        truths = self._probed(rows, FIRST_INDEX_PROBES, steps)
        known = start and self._filled(start, rows, steps)
        if known and (ann := self._tuned_enough(known, truths, steps)):
            return Segment(rows, ann)
        many = len(rows) >= MANY_WAITING
        tried = (self._tried(name, truths, steps) for name in ((FIRST_CELLS,) if many else FIRST_INDEX_TYPES))
        return Segment(rows, next((ann for ann in tried if ann.recall >= self.plan.recall), None))

    def retune(self, part: Segment, queries: Vectors | None) -> Segment:
        """A sealed part that looks far enough for queries unlike its rows, and for these that came."""
        assert part.ann is not None
        came = {} if queries is None else {"queries that came": queries}
        ann = self._tuned(part.ann, self._truths(part.rows, MOST_PROBES, came), StepTimes())
        return replace(part, ann=ann, report=replace(part.seal, settings=ann.settings))

    def _probed(self, rows: RowView, count: int, steps: StepTimes) -> Truths:
        with steps.of("probing"):
            return self._truths(rows, count)

    def _truths(self, rows: RowView, count: int, more: Mapping[str, Vectors] = NOTHING) -> Truths:
        """For each size of an answer probes of each kind, the usual ones first: real queries or rows."""
        limits = [limit for limit in LIMITS if limit * ROWS_FOR_A_HIT <= len(rows)] or LIMITS[:1]
        queries, few = self.ask(count), count // UNLIKE_SHARE
        kinds = {} if queries is None else {"queries": queries}
        some = rows.sample_places(few if kinds else count)
        kinds |= {"rows": apply_signs(rows.take(some), self.signs)}
        kinds |= {kind: apply_signs(one, self.signs) for kind, one in unlike_queries(rows, few).items()}
        return probe_truths(self.metric, rows, kinds | dict(more), limits, {"rows": rows.ids[some]})

    def _filled(self, start: IndexStart, rows: RowView, steps: StepTimes) -> FaissIndex | None:
        """An index in known cells, with the settings that are known; None where the rows do not fit."""
        with steps.of("filling"):
            return index_build.extend_index(start, rows, self.stopped)

    def _checked(self, ann: FaissIndex, truths: Truths, steps: StepTimes) -> FaissIndex | None:
        """The index as it is, if probes of each kind find enough with its settings."""
        faiss.omp_set_num_threads(1)
        with steps.of("checking"):
            good = all(settings_do(ann, kinds, self.plan.recall) for kinds in truths)
        faiss.omp_set_num_threads(self.threads)
        return ann if good else None

    def _tuned_enough(self, known: FaissIndex, truths: Truths, steps: StepTimes) -> FaissIndex | None:
        """The index with settings for every limit; None where the target is not reached."""
        ann = self._tuned(known, truths, steps)
        return ann if ann.recall >= self.plan.recall else None

    def _tried(
        self,
        name: str,
        truths: Truths,
        steps: StepTimes,
        most: float = np.inf,
        *,
        on_gpu: bool = False,
    ) -> FaissIndex:
        """An index of this type with settings for every limit, which may miss the target."""
        rows = truths[0][0].rows
        reduced = reduction_for(self.metric, rows.vectors.shape[1], rows.lengths)
        with steps.of("learning and filling"):
            ann = index_build.build_index(name, rows, reduced, on_gpu=on_gpu, stopped=self.stopped)
        return self._tuned(ann, truths, steps, most)

    def _tuned(self, ann: FaissIndex, truths: Truths, steps: StepTimes, most: float = np.inf) -> FaissIndex:
        """The index with settings for every limit."""
        faiss.omp_set_num_threads(1)
        with steps.of("tuning"):
            if ann.cells is not None:
                settings = CellTuner(ann, truths, self.plan.recall).tune()
            else:
                settings = tuple(self._plainly_tuned(ann, each, most) for each in truths)
        faiss.omp_set_num_threads(self.threads)
        return replace(ann, settings=settings)

    def _plainly_tuned(self, ann: FaissIndex, truths: tuple[ProbeTruth, ...], most: float) -> SearchSetting:
        if self.stopped():
            raise BuildStopped
        setting = tune_setting(ann, truths[0], self.plan.recall, most)
        reached = setting.recall >= self.plan.recall
        return secure_setting(ann, setting, truths, self.plan.recall) if reached else setting


MIN_QUERIES = 32  # queries that are worth measuring with


def real_queries(
    space: Space,
    side: Aspect,
    count: int,
    probes: Mapping[Side, Features],
    stored: Mapping[EngineKey, IndexEngine],
) -> Float32[np.ndarray, "q d"] | None:
    """Queries of the other sides: the encoder's own probes, else what is stored; None where these are few."""
    for other in (one for one in SIDES if one != side):
        vectors = None
        if other in probes:
            vectors = space.vectors(probes[other][:count])
        elif (other, "observation") in stored:
            vectors = stored[other, "observation"].sample(count)
        if vectors is not None and len(vectors) >= MIN_QUERIES:
            return apply_signs(vectors, space.query_signs)
    return None
