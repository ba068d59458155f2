"""What a service measures of its requests, in Prometheus' text format."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as MEDIA_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from app.concurrency.batching import KeyName, OnBatch
from app.concurrency.clients import key_name
from app.operations.logs import access_log
from app.operations.tracing import open_tracing
from multifold.types import Hit

__all__ = ["MEDIA_TYPE", "Telemetry", "rate_match"]
SECOND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZE_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
GOOD_CONFIDENCE = 0.5  # the confidence from which a hit matches well
disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series


@dataclass(frozen=True)
class MetricReader(Collector):
    """Metrics that a function reads."""

    read: Callable[[], Iterable[Metric]]

    def collect(self) -> Iterable[Metric]:
        return self.read()


class Telemetry:
    """The metrics and spans of one service."""

    def __init__(self, *, log_all: bool) -> None:
        self.tracing = open_tracing()
        self._registry = CollectorRegistry()
        self._log_all = log_all  # requests; else those that failed
        self._requests = self._counter(
            "multifold_requests_total", "Requests answered.", "method", "route", "status"
        )
        self._seconds = self._histogram(
            "multifold_request_seconds", "From the first byte to the answer.", "route", SECOND_BUCKETS
        )
        self._sizes = self._histogram(
            "multifold_batch_size", "Requests that were worked on together.", "work", SIZE_BUCKETS
        )
        self._waits = self._histogram(
            "multifold_wait_seconds", "How long the first of a batch waited.", "work", SECOND_BUCKETS
        )
        self._works = self._histogram(
            "multifold_work_seconds", "How long a batch took, or one rescoring.", "work", SECOND_BUCKETS
        )
        self._key_requests = self._counter("multifold_key_requests_total", "Requests of each key.", "key")
        self._key_seconds = self._counter(
            "multifold_key_work_seconds_total", "Work for each key, its share of batches.", "key", "work"
        )
        self._verdicts = self._counter(
            "multifold_feedback_total", "Verdicts on hits.", "collection", "verdict"
        )
        self._answers = self._counter(
            "multifold_answers_total", "Searches by how well their best hit matches.", "collection", "match"
        )
        self._unlike = self._counter(
            "multifold_answers_unlike_total",
            "Searches that say less than 95 % of the questions that confidences were fitted on.",
            "collection",
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method if method in KNOWN_METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._key_requests.labels(_key_label(key_name.get())).inc()
        if self._log_all or status >= 500:
            fields = {
                "event": "request",
                "method": method,
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 2),
                "key": key_name.get(),
            }
            level = logging.ERROR if status >= 500 else logging.INFO
            access_log.log(level, "request", extra={"fields": fields})

    def answer(self, collection: str, hits: Sequence[Hit], *, unlike: bool) -> None:
        self._answers.labels(collection, rate_match(hits)).inc()
        if unlike:
            self._unlike.labels(collection).inc()

    def verdict(self, collection: str, verdict: str) -> None:
        self._verdicts.labels(collection, verdict).inc()

    def watch(self, work: str) -> OnBatch:
        sizes = self._sizes.labels(work)
        waits = self._waits.labels(work)
        works = self._works.labels(work)

        def observe(keys: Sequence[KeyName], waited: float, worked: float) -> None:
            sizes.observe(len(keys))
            waits.observe(waited)
            works.observe(worked)
            for key in keys:
                self._key_seconds.labels(_key_label(key), work).inc(worked / len(keys))

        return observe

    def clock(self, work: str) -> Callable[[float], None]:
        return self._works.labels(work).observe

    def show(self, read: Callable[[], Iterable[Metric]]) -> None:
        """Ask this function whenever the metrics are asked for."""
        self._registry.register(MetricReader(read))

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, label: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, about, (label,), buckets=buckets, registry=self._registry)


def _key_label(key: KeyName) -> str:
    return key or "none"


def rate_match(hits: Sequence[Hit]) -> str:
    confidences = [hit.confidence for hit in hits if hit.confidence is not None]
    if not hits:
        return "nothing"
    if not confidences:
        return "unknown"
    return "well" if max(confidences) >= GOOD_CONFIDENCE else "poorly"
