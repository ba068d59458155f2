"""The recall of graphs in a cluster: measured by one process at a time, noted in the store for all of them.

As with our own types (engines/tuning.py) real queries of another side are asked, and what a look at every row
finds is the truth. It is done in the background, when a graph is new or has twice the rows that it had.
"""

import logging
import threading
import time
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool

from index.cluster import search_effort
from index.cluster.milvus_connection import GRAPH, MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.cluster.search_effort import GraphMeasurement
from index.contracts import EngineKey, Ids, Space
from index.engines import builder
from index.engines.builder import real_queries
from index.engines.faiss_index import BuildStopped, SearchSetting
from index.engines.segments import SegmentReport
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.types import Features, Side

log = logging.getLogger(__name__)

KEY = "cluster_recall"  # of the note
CHECK_SECONDS = 60.0  # seconds between two looks at what has grown
GROWTH_FACTOR = 2  # times the rows that were measured

Graphs = Mapping[EngineKey, MilvusEngine]


class RecallMonitor:
    """Tells the engines of one process how far they have to look."""

    def __init__(
        self,
        space: Space,
        store: Store,
        link: MilvusConnection,
        probes: Mapping[Side, Features] | None,
        target: float,
    ) -> None:
        self._space, self._store, self._link = space, store, link
        self._probes, self._target = probes or {}, target
        self._looked = -np.inf
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self, engines: Graphs, *, writes: bool) -> None:
        """Now and then: tell them what is known, and have measured what has grown."""
        if time.monotonic() < self._looked + CHECK_SECONDS or self._busy():
            return
        self._looked = time.monotonic()
        self._tell(engines)
        if writes:
            self._thread = threading.Thread(target=self._quietly, args=[dict(engines)], name="measure")
            self._thread.start()

    def now(self, engines: Graphs) -> None:
        """Measure what has grown, unless another process is about it, and tell them."""
        with self._store.alone("measure") as mine:
            known = search_effort.measurements_from_note(self._store.noted(KEY)) if mine else {}
            for side, kind in engines if mine else ():
                engine = engines[side, kind]
                if not self._due(engine, known.get(engine.name)):
                    continue
                queries = real_queries(self._space, side, builder.MOST_PROBES, self._probes, engines)
                if queries is not None:
                    measured = self._apart(engine).measure(queries, self._target, self._over.is_set)
                    known[engine.name] = measured
                    self._note(known, engines)
                    report = self._report(measured)
                    log.log(logging.INFO if report.recall >= report.target else logging.WARNING, "%s", report)
        self._tell(engines)

    def reports(self, engines: Graphs) -> dict[EngineKey, list[SegmentReport]]:
        """What graphs there are and what they find, as far as it was measured."""
        return {
            segment: [self._report(engine.measured)]
            for segment, engine in engines.items()
            if engine.measured is not None
        }

    def close(self) -> None:
        """Leave off."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _due(self, engine: MilvusEngine, known: GraphMeasurement | None) -> bool:
        if not engine.measurable():
            return False
        return known is None or known.target != self._target or engine.count() >= GROWTH_FACTOR * known.rows

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _quietly(self, engines: Graphs) -> None:
        try:
            self.now(engines)
        except BuildStopped:
            pass
        except MultifoldError as error:
            log.warning("recall in the cluster is measured later: %s", error)

    def _tell(self, engines: Graphs) -> None:
        known = search_effort.measurements_from_note(self._store.noted(KEY))
        for engine in engines.values():
            engine.measured = known.get(engine.name)

    def _note(self, known: dict[str, GraphMeasurement], engines: Graphs) -> None:
        """Names that are gone are forgotten."""
        names = {engine.name for engine in engines.values()}
        self._store.note(
            KEY,
            lambda _: search_effort.measurements_as_note({n: one for n, one in known.items() if n in names}),
        )

    def _apart(self, engine: MilvusEngine) -> MilvusEngine:
        """The same rows, whether they count or not: the graph is one for all."""
        dim, metric = self._space.dim, self._space.metric
        return MilvusEngine(dim, metric, self._link, engine.name, self._unless_over)

    def _unless_over(self, rows: Ids) -> Bool[np.ndarray, " k"]:
        if self._over.is_set():
            raise BuildStopped
        return np.ones(len(rows), bool)

    def _report(self, measured: GraphMeasurement) -> SegmentReport:
        settings = tuple(
            SearchSetting(one.limit, one.effort, one.reach, one.recall, one.seconds)
            for one in measured.efforts
        )
        known = (measured.rows, measured.target, measured.probes, "queries", settings)
        return SegmentReport(
            f"{GRAPH} in Milvus", *known, bytes_per_row=4.0 * self._space.dim, build_seconds=0.0
        )
