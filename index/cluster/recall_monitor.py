"""The recall of graphs in a cluster: measured by one process at a time, noted in the store for all of them.

As with our own types (engines/builder.py) real queries of another side are used, and exact search
finds the truth. It is done in the background, when a graph is new or has twice the rows that it had.
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
CHECK_SECONDS = 60.0  # seconds between two checks of what has grown
GROWTH_FACTOR = 2  # times the rows that were measured

Graphs = Mapping[EngineKey, MilvusEngine]


class RecallMonitor:
    """Gives the engines of one process the efforts that reach the recall."""

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
        self._checked = -np.inf
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self, engines: Graphs, *, writes: bool) -> None:
        """Now and then: give them the noted measurements, and start measuring what has grown."""
        busy = self._thread is not None and self._thread.is_alive()
        if time.monotonic() < self._checked + CHECK_SECONDS or busy:
            return
        self._checked = time.monotonic()
        self._tell(engines)
        if writes:
            self._thread = threading.Thread(target=self._run, args=[dict(engines)], name="measure")
            self._thread.start()

    def now(self, engines: Graphs) -> None:
        """Measure what has grown, unless another process is about it, and tell them."""
        with self._store.alone("measure") as mine:
            noted = search_effort.measurements_from_note(self._store.noted(KEY)) if mine else {}
            for side, kind in engines if mine else ():
                engine = engines[side, kind]
                if not self._due(engine, noted.get(engine.name)):
                    continue
                queries = real_queries(self._space, side, builder.MOST_PROBES, self._probes, engines)
                if queries is not None:
                    measured = self._apart(engine).measure(queries, self._target, self._over.is_set)
                    noted[engine.name] = measured
                    self._note(noted, engines)
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
        """Stop measuring."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _due(self, engine: MilvusEngine, last: GraphMeasurement | None) -> bool:
        if not engine.measurable():
            return False
        return last is None or last.target != self._target or engine.count() >= GROWTH_FACTOR * last.rows

    def _run(self, engines: Graphs) -> None:
        try:
            self.now(engines)
        except BuildStopped:
            pass
        except MultifoldError as error:
            log.warning("recall in the cluster is measured later: %s", error)

    def _tell(self, engines: Graphs) -> None:
        noted = search_effort.measurements_from_note(self._store.noted(KEY))
        for engine in engines.values():
            engine.measured = noted.get(engine.name)

    def _note(self, measured: dict[str, GraphMeasurement], engines: Graphs) -> None:
        """Note those of the present engines."""
        names = {engine.name for engine in engines.values()}
        present = {name: one for name, one in measured.items() if name in names}
        self._store.note(KEY, lambda _: search_effort.measurements_as_note(present))

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
        figures = (measured.rows, measured.target, measured.probes, "queries", settings)
        return SegmentReport(
            f"{GRAPH} in Milvus", *figures, bytes_per_row=4.0 * self._space.dim, build_seconds=0.0
        )
