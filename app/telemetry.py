"""What a service measures of itself, for /metrics, and how it logs: JSON, one line a request or an error."""

import json
import logging
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from app.batching import Watch
from app.drift import Drift
from app.metrics import SECONDS, SIZES, Counter, Histogram, Labels, Reading, Registry
from app.service import Service
from app.shelf import Shelf
from app.tracing import tracing
from index.engines.report import Report

access = logging.getLogger("multifold.access")
request_id: ContextVar[str] = ContextVar("request_id", default="")
who: ContextVar[str | None] = ContextVar("who", default=None)  # the name of the key that was presented
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Telemetry:
    """The numbers of one service."""

    def __init__(self, shelf: Shelf) -> None:
        self.tracing = tracing()
        self._log_all = shelf.settings.log == "all"
        self.registry = Registry()
        self._requests, self._seconds = Counter("method", "route", "status"), Histogram(SECONDS, "route")
        self._sizes = Histogram(SIZES, "work")
        self._waits, self._works = Histogram(SECONDS, "work"), Histogram(SECONDS, "work")
        add = self.registry.add
        add("multifold_requests_total", "Requests answered.", self._requests)
        add("multifold_request_seconds", "From the first byte to the answer.", self._seconds)
        add("multifold_batch_size", "Requests that were worked on together.", self._sizes)
        add("multifold_wait_seconds", "How long the first of a batch waited.", self._waits)
        add("multifold_work_seconds", "How long a batch took, or one rescoring.", self._works)
        self._verdicts = Counter("collection", "verdict")
        add("multifold_feedback_total", "Verdicts on hits.", self._verdicts)
        self._answers = Counter("collection", "match")
        add("multifold_answers_total", "Searches by how well their best hit matches.", self._answers)
        self._describe(shelf)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; log it too, if all are logged or it failed on our side."""
        self._requests.add(method if method in METHODS else "other", route, str(status))
        self._seconds.observe(seconds, route)
        if self._log_all or status >= 500:
            said = {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2)}
            level = logging.ERROR if status >= 500 else logging.INFO
            access.log(level, "request", extra={"fields": {"event": "request", **said, "key": who.get()}})

    def verdict(self, collection: str, verdict: str) -> None:
        """Count what somebody said of a hit."""
        self._verdicts.add(collection, verdict)

    def answered(self, collection: str, match: str) -> None:
        """Count how well the best hit of a search matched."""
        self._answers.add(collection, match)

    def drift(self, drift: Drift) -> None:
        """Show what the last probe of each collection found."""
        add, read = self.registry.add, drift.readings
        sound = Reading(lambda: read(lambda one: float(one.sound)))
        add("multifold_probe_sound", "Whether the encoder answers its canaries as recorded.", sound)
        found = Reading(lambda: read(lambda one: one.found / one.asked if one.asked else None))
        add("multifold_probe_recall", "Share of known captions that find their item among ten.", found)
        at = Reading(lambda: read(lambda one: one.at))
        add("multifold_probe_time_seconds", "When that was looked at last.", at)

    def watch(self, work: str) -> Watch:
        """What a batcher tells of each batch."""

        def told(size: int, waited: float, worked: float) -> None:
            self._sizes.observe(size, work)
            self._waits.observe(waited, work)
            self._works.observe(worked, work)

        return told

    def clock(self, work: str) -> Callable[[float], None]:
        """What is told of each piece of work how long it took."""
        return lambda seconds: self._works.observe(seconds, work)

    def queues(self, waiting: Callable[[], dict[str, int]], room: int) -> None:
        """Show how many wait for what."""
        self.registry.add(
            "multifold_queue_waiting",
            "Requests that wait.",
            Reading(lambda: [({"work": work}, float(count)) for work, count in waiting().items()]),
        )
        self.registry.add(
            "multifold_queue_room", "Most that may wait for one work.", _one(lambda: float(room))
        )

    def cache(self, used: Callable[[], tuple[int, int, int]]) -> None:
        """Show how the memory of query vectors does: hits, misses, size."""
        add = self.registry.add
        hits = "multifold_cache_requests_total"
        add(
            hits,
            "Queries whose vector was remembered, or was not.",
            Reading(lambda: _results(used()), "counter"),
        )
        add("multifold_cache_size", "Vectors remembered.", _one(lambda: float(used()[2])))

    def _describe(self, shelf: Shelf) -> None:
        add, each = self.registry.add, partial(_each, shelf)
        add("multifold_info", "What runs here.", each(lambda one: [(_about(one), 1.0)]))
        add("multifold_items", "Items in the collection.", each(lambda one: [({}, one.collection.count())]))
        add(
            "multifold_observations",
            "Observations in the collection.",
            each(lambda one: [({"kind": k}, n) for k, n in one.collection.observations().items()]),
        )
        add(
            "multifold_version",
            "Last change that searches see.",
            each(lambda one: [({}, one.collection.version)]),
        )
        rows = each(lambda one: _sealed(one, lambda count, _: count))
        add("multifold_index_rows", "Rows of an index in this process.", rows)
        sealed = each(lambda one: _sealed(one, lambda _, parts: sum(part.rows for part in parts)))
        add("multifold_index_sealed_rows", "Those in sealed parts; the others are searched exactly.", sealed)
        recall = each(
            lambda one: _sealed(one, lambda _, parts: min((part.recall for part in parts), default=1.0))
        )
        add("multifold_index_recall", "Recall of the first ten, measured when a part was sealed.", recall)
        disk = partial(shutil.disk_usage, shelf.settings.data)
        add("multifold_disk_bytes", "The disk of the data folder.", _one(lambda: float(disk().total)))
        add("multifold_disk_free_bytes", "What is free on it.", _one(lambda: float(disk().free)))
        add("multifold_resident_bytes", "Memory in use.", _one(_resident))
        add("multifold_cpu_seconds_total", "Processor time used.", _one(_cpu, "counter"))


class JsonLines(logging.Formatter):
    """Log records as JSON, one a line, with the id of the request they belong to."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "fields", None) or {"message": record.getMessage()}
        if record.exc_info:
            fields = {**fields, "trace": self.formatException(record.exc_info)}
        said |= {"request_id": request_id.get()} | fields if request_id.get() else fields
        return json.dumps(said, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Send what this process logs to its error output, as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    access.setLevel(logging.INFO)


def _each(shelf: Shelf, look: Callable[[Service], Iterable[tuple[Labels, float]]]) -> Reading:
    """The same of every collection."""

    def found() -> Iterator[tuple[Labels, float]]:
        for service in shelf.services():
            for labels, value in look(service):
                yield {"collection": service.name, **labels}, float(value)

    return Reading(found)


def _about(service: Service) -> Labels:
    bundle = service.encoder.bundle
    return {"version": version("multifold"), "bundle": bundle.name, "vector_id": bundle.vector_id}


def _sealed(
    service: Service, tell: Callable[[int, Sequence[Report]], float]
) -> Iterator[tuple[Labels, float]]:
    for (side, kind), told in service.collection.sealed().items():
        yield {"side": side, "kind": kind}, tell(*told)


def _one(look: Callable[[], float], kind: Literal["gauge", "counter"] = "gauge") -> Reading:
    return Reading(lambda: [({}, look())], kind)


def _results(used: tuple[int, int, int]) -> Iterable[tuple[Labels, float]]:
    return [({"result": "hit"}, float(used[0])), ({"result": "miss"}, float(used[1]))]


def _resident() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return float(pages * resource.getpagesize())


def _cpu() -> float:
    return time.process_time()
