"""What a service reports about itself: metrics in Prometheus' text format, and OpenTelemetry spans.

Spans go to the provider that is set up already, as `opentelemetry-instrument` does; else, with the extra
`otel`, to where OTEL_EXPORTER_OTLP_ENDPOINT says. Without either, no spans are made."""

import logging
import math
import os
import resource
import shutil
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from app.collections.collections import Collections, CollectionService
from app.concurrency.batching import KeyName, OnBatch
from app.operations.logs import access_log, key_name
from app.operations.probes import DriftMonitor, ProbeResult
from index.engines.segments import SegmentReport
from index.engines.served_queries import ServedRecall
from multifold.types import Hit

Labels: TypeAlias = Mapping[str, str]
Number: TypeAlias = float | int
Reading: TypeAlias = tuple[Labels, Number | None]
Readings: TypeAlias = Iterable[Reading]
ServiceReader: TypeAlias = Callable[[CollectionService], Readings]
Sample: TypeAlias = tuple[str, Labels, Number]  # suffix of the name, labels, value

SECOND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZE_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricCounter:
    """A number that only rises, for each set of labels."""

    kind = "counter"

    def __init__(self, *names: str) -> None:
        self._names, self._lock = names, threading.Lock()
        self._values: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, *labels: str, by: float = 1.0) -> None:
        with self._lock:
            self._values[labels] += by

    def samples(self) -> Iterable[Sample]:
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield "", dict(zip(self._names, labels, strict=True)), value


class MetricHistogram:
    """How many values were at most as large as each bound, for each set of labels."""

    kind = "histogram"

    def __init__(self, bounds: tuple[float, ...], *names: str) -> None:
        self._bounds, self._names, self._lock = (*bounds, math.inf), names, threading.Lock()
        self._series: dict[tuple[str, ...], tuple[list[int], float]] = {}  # counts by bound, and the sum

    def observe(self, value: Number, *labels: str) -> None:
        with self._lock:
            counts, total = self._series.get(labels, ([0] * len(self._bounds), 0.0))
            counts[bisect_left(self._bounds, value)] += 1
            self._series[labels] = counts, total + value

    def samples(self) -> Iterable[Sample]:
        with self._lock:
            series = [(key, [*accumulate(counts)], total) for key, (counts, total) in self._series.items()]
        for key, counts, total in sorted(series):
            labels = dict(zip(self._names, key, strict=True))
            for bound, below in zip(self._bounds, counts, strict=True):
                yield "_bucket", {**labels, "le": _format_number(bound)}, below
            yield "_sum", labels, total
            yield "_count", labels, counts[-1]


class CallbackMetric:
    """Values that are read when the metrics are; None: there is none now."""

    def __init__(self, read: Callable[[], Readings], kind: str = "gauge") -> None:
        self._read, self.kind = read, kind

    def samples(self) -> Iterable[Sample]:
        for labels, value in self._read():
            if value is not None:
                yield "", labels, value


class MetricRegistry:
    """All metrics by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, MetricCounter | MetricHistogram | CallbackMetric]] = {}

    def add(self, name: str, about: str, metric: MetricCounter | MetricHistogram | CallbackMetric) -> None:
        assert name not in self._metrics
        self._metrics[name] = about, metric

    def text(self) -> str:
        lines: list[str] = []
        for name, (about, metric) in self._metrics.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {metric.kind}"]
            lines += [
                f"{name}{suffix}{_format_labels(labels)} {_format_number(value)}"
                for suffix, labels, value in metric.samples()
            ]
        return "\n".join(lines) + "\n"


LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def _format_labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(LABEL_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _format_number(value: Number) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACER_NAME = "multifold"
OnAnswer: TypeAlias = Callable[[str, int], None]  # the route of a request, and its status
_log = logging.getLogger("multifold.app")


class Tracing:
    """Makes spans, if there is a provider."""

    def __init__(self, provider: Any = None, *, own: bool = False) -> None:  # noqa: ANN401 (may not be installed)
        self._provider, self._own = provider, own
        self._tracer = None if provider is None else provider.get_tracer(TRACER_NAME, version(TRACER_NAME))

    def span(self, name: str, **attributes: str | int) -> AbstractContextManager[Any]:
        if self._tracer is None:
            return nullcontext()
        return self._tracer.start_as_current_span(name, attributes=attributes)  # type: ignore[no-any-return]

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], request_id: str) -> Iterator[OnAnswer]:
        """The span of a request, in its client's own trace if the headers name one; call it when answered."""
        if self._tracer is None:
            yield lambda _route, _status: None
            return
        trace, propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
        attributes = {"http.request.method": method, "multifold.request_id": request_id}
        parent, kind = propagate.extract(headers), trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(method, parent, kind, attributes) as span:

            def answered(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            yield answered

    def close(self) -> None:
        if self._own:
            self._provider.shutdown()


def open_tracing() -> Tracing:
    if find_spec("opentelemetry") is None:
        return Tracing()
    trace = import_module("opentelemetry.trace")
    present = trace.get_tracer_provider()
    if not isinstance(present, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return Tracing(present)
    if not any(map(os.environ.get, ENDPOINT_VARIABLES)):
        return Tracing()
    try:
        return Tracing(_otlp_provider(), own=True)
    except ModuleNotFoundError as error:
        _log.warning("no spans are sent: %s is not installed; pip install 'multifold[otel]'", error.name)
        return Tracing()


def _otlp_provider() -> Any:  # noqa: ANN401 (may not be installed)
    sdk, resources = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.resources")
    export = import_module("opentelemetry.sdk.trace.export")
    otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": TRACER_NAME}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
GOOD_CONFIDENCE = 0.5  # the confidence from which a hit matches well


class Telemetry:
    """The metrics and spans of one service."""

    def __init__(self, collections: Collections) -> None:
        self.tracing, self.registry = open_tracing(), MetricRegistry()
        self._log_all = collections.settings.log == "all"
        self._requests = MetricCounter("method", "route", "status")
        self._seconds = MetricHistogram(SECOND_BUCKETS, "route")
        self._sizes = MetricHistogram(SIZE_BUCKETS, "work")
        self._waits = MetricHistogram(SECOND_BUCKETS, "work")
        self._works = MetricHistogram(SECOND_BUCKETS, "work")
        self.verdicts = MetricCounter("collection", "verdict")
        self._answers = MetricCounter("collection", "match")
        self._key_requests, self._key_seconds = MetricCounter("key"), MetricCounter("key", "work")
        add = self.registry.add
        add("multifold_requests_total", "Requests answered.", self._requests)
        add("multifold_request_seconds", "From the first byte to the answer.", self._seconds)
        add("multifold_batch_size", "Requests that were worked on together.", self._sizes)
        add("multifold_wait_seconds", "How long the first of a batch waited.", self._waits)
        add("multifold_work_seconds", "How long a batch took, or one rescoring.", self._works)
        add("multifold_key_requests_total", "Requests of each key.", self._key_requests)
        add("multifold_key_work_seconds_total", "Work for each key, its share of batches.", self._key_seconds)
        add("multifold_feedback_total", "Verdicts on hits.", self.verdicts)
        add("multifold_answers_total", "Searches by how well their best hit matches.", self._answers)
        self._describe(collections)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.add(method if method in KNOWN_METHODS else "other", route, str(status))
        self._seconds.observe(seconds, route)
        self._key_requests.add(_key_label(key_name.get()))
        if self._log_all or status >= 500:
            fields = {"event": "request", "method": method, "route": route, "status": status}
            fields |= {"ms": round(1000 * seconds, 2), "key": key_name.get()}
            level = logging.ERROR if status >= 500 else logging.INFO
            access_log.log(level, "request", extra={"fields": fields})

    def answer(self, collection: str, hits: Sequence[Hit]) -> None:
        self._answers.add(collection, rate_match(hits))

    def watch(self, work: str) -> OnBatch:
        def observe(keys: Sequence[KeyName], waited: float, worked: float) -> None:
            self._sizes.observe(len(keys), work)
            self._waits.observe(waited, work)
            self._works.observe(worked, work)
            for key in keys:
                self._key_seconds.add(_key_label(key), work, by=worked / len(keys))

        return observe

    def clock(self, work: str) -> Callable[[float], None]:
        return lambda seconds: self._works.observe(seconds, work)

    def show_drift(self, drift: DriftMonitor) -> None:
        def each(read: Callable[[ProbeResult], Number | None]) -> CallbackMetric:
            return CallbackMetric(lambda: [({"collection": n}, read(p)) for n, p in {**drift.probes}.items()])

        add, recall = self.registry.add, each(lambda one: one.hits / one.queries if one.queries else None)
        sound = each(lambda one: int(one.sound))
        add("multifold_probe_sound", "Whether the encoder answers its canaries as recorded.", sound)
        add("multifold_probe_recall", "Share of known captions that find their item among ten.", recall)
        add("multifold_probe_time_seconds", "When that was looked at last.", each(lambda one: one.at))
        damaged = each(lambda one: one.damaged - one.repaired)
        add("multifold_damaged_observations", "Found damaged since the start, and not made anew.", damaged)
        repaired = each(lambda one: one.repaired)
        add("multifold_repaired_observations", "Found damaged since the start, and made anew.", repaired)

    def show_queues(self, waiting: Callable[[], dict[str, int]], room: int) -> None:
        counts = CallbackMetric(lambda: [({"work": work}, n) for work, n in waiting().items()])
        self.registry.add("multifold_queue_waiting", "Requests that wait.", counts)
        self._show("multifold_queue_room", "Most that may wait for one work.", lambda: room)

    def show_cache(self, counts: Callable[[], tuple[int, int, int]]) -> None:
        def requests() -> list[Reading]:
            hits, misses, _ = counts()
            return [({"result": "hit"}, hits), ({"result": "miss"}, misses)]

        about = "Queries whose vector was remembered, or was not."
        self.registry.add("multifold_cache_requests_total", about, CallbackMetric(requests, "counter"))
        self._show("multifold_cache_size", "Vectors remembered.", lambda: counts()[2])

    def _show(self, name: str, about: str, read: Callable[[], Number], kind: str = "gauge") -> None:
        self.registry.add(name, about, CallbackMetric(lambda: [({}, read())], kind))

    def _describe(self, collections: Collections) -> None:
        add, each = self.registry.add, partial(_each_collection, collections)
        add("multifold_info", "What runs here.", each(lambda one: [(_info_labels(one), 1.0)]))
        add("multifold_items", "Items in the collection.", each(lambda one: [({}, one.collection.count())]))
        kinds = each(lambda one: [({"kind": k}, n) for k, n in one.collection.observations().items()])
        add("multifold_observations", "Observations in the collection.", kinds)
        changes = each(lambda one: [({}, one.collection.version)])
        add("multifold_version", "Last change that searches see.", changes)
        rows = each(lambda one: _index_values(one, lambda count, _: count))
        add("multifold_index_rows", "Rows of an index in this process.", rows)
        sealed = each(lambda one: _index_values(one, lambda _, parts: sum(part.rows for part in parts)))
        add("multifold_index_sealed_rows", "Those in sealed parts; the others are searched exactly.", sealed)
        least = each(lambda one: _index_values(one, lambda _, parts: min([1.0, *(p.recall for p in parts)])))
        add("multifold_index_recall", "Recall of the first ten, measured when a part was sealed.", least)
        served = each(lambda one: _served_values(one, lambda recall: recall.mean))
        add("multifold_index_served_recall", "Recall of searches of late, of those asked again.", served)
        again = each(lambda one: _served_values(one, lambda recall: recall.answers))
        add("multifold_index_served_answers", "How many searches of late were asked again exactly.", again)
        held = each(lambda one: _index_values(one, lambda _, parts: _bytes(parts, "bytes_per_row")))
        add("multifold_index_bytes", "What sealed parts take in memory.", held)
        files = each(lambda one: _index_values(one, lambda _, parts: _bytes(parts, "file_bytes_per_row")))
        add("multifold_index_file_bytes", "Vectors of sealed parts that are read from files.", files)
        reads = each(lambda one: _read_values(one, "reads"), "counter")
        add("multifold_index_reads_total", "Queries, or blocks of rows, that read from files.", reads)
        read = each(lambda one: _read_values(one, "rows"), "counter")
        add("multifold_index_rows_read_total", "Rows that were read from files.", read)
        given = each(lambda one: _read_values(one, "bytes"), "counter")
        add("multifold_index_disk_read_bytes_total", "What the disk gave for them.", given)
        disk = partial(shutil.disk_usage, collections.settings.data)
        self._show("multifold_disk_bytes", "The disk of the data folder.", lambda: disk().total)
        self._show("multifold_disk_free_bytes", "What is free on it.", lambda: disk().free)
        self._show("multifold_resident_bytes", "Memory in use.", _resident_bytes)
        self._show("multifold_cpu_seconds_total", "Processor time used.", time.process_time, "counter")


def _key_label(key: KeyName) -> str:
    return key or "none"


def rate_match(hits: Sequence[Hit]) -> str:
    """How well the best hit of a search matches, as far as a confidence is known."""
    confidences = [hit.confidence for hit in hits if hit.confidence is not None]
    if not hits:
        return "nothing"
    if not confidences:
        return "unknown"
    return "well" if max(confidences) >= GOOD_CONFIDENCE else "poorly"


def _each_collection(collections: Collections, read: ServiceReader, kind: str = "gauge") -> CallbackMetric:
    def values() -> Iterator[Reading]:
        for service in collections.services():
            for labels, value in read(service):
                yield {"collection": service.name, **labels}, value

    return CallbackMetric(values, kind)


def _info_labels(service: CollectionService) -> Labels:
    bundle = service.encoder.bundle
    return {"version": version("multifold"), "bundle": bundle.name, "vector_id": bundle.vector_id}


def _index_values(
    service: CollectionService, read: Callable[[int, Sequence[SegmentReport]], Number]
) -> Iterator[Reading]:
    for (side, kind), (count, segments) in service.collection.sealed().items():
        yield {"side": side, "kind": kind}, read(count, segments)


def _bytes(parts: Sequence[SegmentReport], name: str) -> int:
    return int(sum(part.rows * getattr(part, name) for part in parts))


def _read_values(service: CollectionService, name: str) -> Iterator[Reading]:
    for (side, kind), count in service.collection.read_counts().items():
        yield {"side": side, "kind": kind}, getattr(count, name)


def _served_values(
    service: CollectionService, read: Callable[[ServedRecall], float]
) -> Iterator[tuple[Labels, float]]:
    for (side, kind), recall in service.collection.served().items():
        yield {"side": side, "kind": kind}, read(recall)


def _resident_bytes() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return float(pages * resource.getpagesize())
