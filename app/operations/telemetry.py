"""What a service reports about itself: metrics, JSON logs, and OpenTelemetry spans.

Spans go to the provider that is set up already, as `opentelemetry-instrument` does; else, with the extra
`otel`, to where OTEL_EXPORTER_OTLP_ENDPOINT says. Without either, no spans are made."""

import json
import logging
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from app.collections.collections import Collections
from app.collections.service import CollectionService
from app.concurrency.batching import OnBatch
from app.operations.drift import DriftMonitor
from app.operations.metrics import (
    SECOND_BUCKETS,
    SIZE_BUCKETS,
    CallbackMetric,
    Labels,
    MetricCounter,
    MetricHistogram,
    MetricRegistry,
)
from index.engines.segments import SegmentReport

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACER_NAME = "multifold"
OnAnswer: TypeAlias = Callable[[str, int], None]  # the route of a request, and its status
_log = logging.getLogger("multifold.app")


class Tracing:
    """Tells spans to a provider, if there is one."""

    def __init__(self, provider: Any = None, *, own: bool = False) -> None:  # noqa: ANN401 (may not be installed)
        self._provider, self._own = provider, own
        self._tracer = None if provider is None else provider.get_tracer(TRACER_NAME, version(TRACER_NAME))

    @contextmanager
    def span(self, name: str, **told: str | int) -> Iterator[None]:
        """A step of what goes on now."""
        if self._tracer is None:
            yield
            return
        with self._tracer.start_as_current_span(name, attributes=told):
            yield

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], request_id: str) -> Iterator[OnAnswer]:
        """A request, part of its client's own trace if that says so; tell it how it was answered."""
        if self._tracer is None:
            yield lambda _route, _status: None
            return
        trace, propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
        told = {"http.request.method": method, "multifold.request_id": request_id}
        around, kind = propagate.extract(headers), trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(method, around, kind, told) as span:

            def answered(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            yield answered

    def close(self) -> None:
        """Send what was not sent yet, if the provider is ours."""
        if self._own:
            self._provider.shutdown()


def open_tracing() -> Tracing:
    """To whoever listens."""
    if find_spec("opentelemetry") is None:
        return Tracing()
    trace = import_module("opentelemetry.trace")
    known = trace.get_tracer_provider()
    if not isinstance(known, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return Tracing(known)
    if not any(map(os.environ.get, ENDPOINT_VARIABLES)):
        return Tracing()
    try:
        return Tracing(_otlp_provider(), own=True)
    except ModuleNotFoundError as error:
        _log.warning("no spans are sent: %s is not installed; pip install 'multifold[otel]'", error.name)
        return Tracing()


def _otlp_provider() -> Any:  # noqa: ANN401 (may not be installed)
    """A provider that sends to where the environment says."""
    sdk, resources = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.resources")
    export = import_module("opentelemetry.sdk.trace.export")
    otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": TRACER_NAME}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


access_log = logging.getLogger("multifold.access")
request_id: ContextVar[str] = ContextVar("request_id", default="")
key_name: ContextVar[str | None] = ContextVar("who", default=None)  # the name of the key that was presented
KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Telemetry:
    """The numbers of one service."""

    def __init__(self, shelf: Collections) -> None:
        self.tracing = open_tracing()
        self._log_all = shelf.settings.log == "all"
        self.registry = MetricRegistry()
        self._requests, self._seconds = (
            MetricCounter("method", "route", "status"),
            MetricHistogram(SECOND_BUCKETS, "route"),
        )
        self._sizes = MetricHistogram(SIZE_BUCKETS, "work")
        self._waits, self._works = (
            MetricHistogram(SECOND_BUCKETS, "work"),
            MetricHistogram(SECOND_BUCKETS, "work"),
        )
        add = self.registry.add
        add("multifold_requests_total", "Requests answered.", self._requests)
        add("multifold_request_seconds", "From the first byte to the answer.", self._seconds)
        add("multifold_batch_size", "Requests that were worked on together.", self._sizes)
        add("multifold_wait_seconds", "How long the first of a batch waited.", self._waits)
        add("multifold_work_seconds", "How long a batch took, or one rescoring.", self._works)
        self._verdicts = MetricCounter("collection", "verdict")
        add("multifold_feedback_total", "Verdicts on hits.", self._verdicts)
        self._answers = MetricCounter("collection", "match")
        add("multifold_answers_total", "Searches by how well their best hit matches.", self._answers)
        self._describe(shelf)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; log it too, if all are logged or it failed on our side."""
        self._requests.add(method if method in KNOWN_METHODS else "other", route, str(status))
        self._seconds.observe(seconds, route)
        if self._log_all or status >= 500:
            said = {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2)}
            level = logging.ERROR if status >= 500 else logging.INFO
            access_log.log(
                level, "request", extra={"fields": {"event": "request", **said, "key": key_name.get()}}
            )

    def verdict(self, collection: str, verdict: str) -> None:
        """Count what somebody said of a hit."""
        self._verdicts.add(collection, verdict)

    def answered(self, collection: str, match: str) -> None:
        """Count how well the best hit of a search matched."""
        self._answers.add(collection, match)

    def drift(self, drift: DriftMonitor) -> None:
        """Show what the last probe of each collection found."""
        add, read = self.registry.add, drift.readings
        sound = CallbackMetric(lambda: read(lambda one: float(one.sound)))
        add("multifold_probe_sound", "Whether the encoder answers its canaries as recorded.", sound)
        found = CallbackMetric(lambda: read(lambda one: one.found / one.asked if one.asked else None))
        add("multifold_probe_recall", "Share of known captions that find their item among ten.", found)
        at = CallbackMetric(lambda: read(lambda one: one.at))
        add("multifold_probe_time_seconds", "When that was looked at last.", at)

    def watch(self, work: str) -> OnBatch:
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
            CallbackMetric(lambda: [({"work": work}, float(count)) for work, count in waiting().items()]),
        )
        self.registry.add(
            "multifold_queue_room", "Most that may wait for one work.", _single_reading(lambda: float(room))
        )

    def cache(self, used: Callable[[], tuple[int, int, int]]) -> None:
        """Show how the memory of query vectors does: hits, misses, size."""
        add = self.registry.add
        hits = "multifold_cache_requests_total"
        add(
            hits,
            "Queries whose vector was remembered, or was not.",
            CallbackMetric(lambda: _cache_results(used()), "counter"),
        )
        add("multifold_cache_size", "Vectors remembered.", _single_reading(lambda: float(used()[2])))

    def _describe(self, shelf: Collections) -> None:
        add, each = self.registry.add, partial(_each_collection, shelf)
        add("multifold_info", "What runs here.", each(lambda one: [(_info_labels(one), 1.0)]))
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
        rows = each(lambda one: _sealed_values(one, lambda count, _: count))
        add("multifold_index_rows", "Rows of an index in this process.", rows)
        sealed = each(lambda one: _sealed_values(one, lambda _, parts: sum(part.rows for part in parts)))
        add("multifold_index_sealed_rows", "Those in sealed parts; the others are searched exactly.", sealed)
        recall = each(
            lambda one: _sealed_values(
                one, lambda _, parts: min((part.recall for part in parts), default=1.0)
            )
        )
        add("multifold_index_recall", "Recall of the first ten, measured when a part was sealed.", recall)
        disk = partial(shutil.disk_usage, shelf.settings.data)
        add(
            "multifold_disk_bytes",
            "The disk of the data folder.",
            _single_reading(lambda: float(disk().total)),
        )
        add("multifold_disk_free_bytes", "What is free on it.", _single_reading(lambda: float(disk().free)))
        add("multifold_resident_bytes", "Memory in use.", _single_reading(_resident_bytes))
        add("multifold_cpu_seconds_total", "Processor time used.", _single_reading(_cpu_seconds, "counter"))


class JsonLogFormatter(logging.Formatter):
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
    handler.setFormatter(JsonLogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    access_log.setLevel(logging.INFO)


def _each_collection(
    shelf: Collections, look: Callable[[CollectionService], Iterable[tuple[Labels, float]]]
) -> CallbackMetric:
    """The same of every collection."""

    def found() -> Iterator[tuple[Labels, float]]:
        for service in shelf.services():
            for labels, value in look(service):
                yield {"collection": service.name, **labels}, float(value)

    return CallbackMetric(found)


def _info_labels(service: CollectionService) -> Labels:
    bundle = service.encoder.bundle
    return {"version": version("multifold"), "bundle": bundle.name, "vector_id": bundle.vector_id}


def _sealed_values(
    service: CollectionService, tell: Callable[[int, Sequence[SegmentReport]], float]
) -> Iterator[tuple[Labels, float]]:
    for (side, kind), told in service.collection.sealed().items():
        yield {"side": side, "kind": kind}, tell(*told)


def _single_reading(look: Callable[[], float], kind: Literal["gauge", "counter"] = "gauge") -> CallbackMetric:
    return CallbackMetric(lambda: [({}, look())], kind)


def _cache_results(used: tuple[int, int, int]) -> Iterable[tuple[Labels, float]]:
    return [({"result": "hit"}, float(used[0])), ({"result": "miss"}, float(used[1]))]


def _resident_bytes() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return float(pages * resource.getpagesize())


def _cpu_seconds() -> float:
    return time.process_time()
