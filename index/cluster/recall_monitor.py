"""The recall of graphs in a cluster: measured by one process at a time, noted in the store for all of them.

As with our own types (engines/builder.py) real queries of another side are used, or else those that came, and
exact search finds the truth. It is done in the background, when a graph is new or has twice the rows that it
had.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping

from index.cluster.milvus_engine import MilvusEngine
from index.contracts import EngineKey, Space
from index.engines.builder import MOST_PROBES, real_queries
from index.engines.faiss_index import BuildStopped
from index.engines.segments import SegmentReport, report_from_json
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.types import Features, Side

log = logging.getLogger(__name__)

KEY = "cluster_reports"  # of the note
CHECK_SECONDS = 60.0  # seconds between two checks of what has grown
GROWTH_FACTOR = 2  # times the rows that were measured

MEASURING = threading.Lock()  # one collection of a process at a time: it takes a connection for minutes
Graphs = Mapping[EngineKey, MilvusEngine]


class RecallMonitor:
    """Gives the engines of one process the efforts that reach the recall."""

    def __init__(
        self, space: Space, store: Store, probes: Mapping[Side, Features] | None, target: float
    ) -> None:
        self._space = space
        self._store = store
        self._probes = probes or {}
        self._target = target
        self._checked = float("-inf")
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self, engines: Graphs, *, writes: bool) -> None:
        """Now and then: give them the noted reports, and start measuring what has grown."""
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
            noted = self._noted() if mine else {}
            for (side, _), engine in engines.items() if mine else ():
                queries = None
                if self._due(engine, noted.get(engine.name)):
                    queries = real_queries(self._space, side, MOST_PROBES, self._probes, engines)
                    queries = engine.served.probes(MOST_PROBES) if queries is None else queries
                if queries is not None:
                    report = engine.measure(queries, self._target, self._over.is_set)
                    noted[engine.name] = report
                    self._note(noted, engines)
                    log.log(logging.INFO if report.recall >= report.target else logging.WARNING, "%s", report)
        self._tell(engines)

    def wait(self) -> None:
        """Until what is being measured in the background is."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        self._over.set()
        self.wait()

    def _due(self, engine: MilvusEngine, last: SegmentReport | None) -> bool:
        if not engine.measurable():
            return False
        return last is None or last.target != self._target or engine.count() >= GROWTH_FACTOR * last.rows

    def _run(self, engines: Graphs) -> None:
        if not MEASURING.acquire(blocking=False):
            return  # the next check tries again
        try:
            self.now(engines)
        except BuildStopped:
            pass
        except MultifoldError as error:
            log.warning("recall in the cluster is measured later: %s", error)
        finally:
            MEASURING.release()

    def _tell(self, engines: Graphs) -> None:
        noted = self._noted()
        for engine in engines.values():
            engine.measured = noted.get(engine.name)

    def _noted(self) -> dict[str, SegmentReport]:
        note = json.loads(self._store.noted(KEY) or "{}")
        return {name: report_from_json(report) for name, report in note.items()}

    def _note(self, reports: Mapping[str, SegmentReport], engines: Graphs) -> None:
        """Note those of the present engines, by their names in the cluster."""
        present = {engine.name for engine in engines.values()}
        note = {name: report.as_json() for name, report in reports.items() if name in present}
        self._store.note(KEY, lambda _: json.dumps(note))
