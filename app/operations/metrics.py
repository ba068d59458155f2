"""Metrics for Prometheus, in its text format (version 0.0.4)."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[str, Labels, float]  # suffix of the name, labels, value

SECOND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZE_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricCounter:
    """Only ever rises; for each set of labels."""

    kind = "counter"

    def __init__(self, *names: str) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, *labels: str, by: float = 1.0) -> None:
        """Count."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + by

    def samples(self) -> Iterable[Sample]:
        """Its numbers now."""
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield "", dict(zip(self._names, labels, strict=True)), value


class MetricHistogram:
    """How often a value was at most so large; for each set of labels."""

    kind = "histogram"

    def __init__(self, bounds: tuple[float, ...], *names: str) -> None:
        self._bounds, self._names = bounds, names
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float | int, *labels: str) -> None:
        """Take one value in."""
        place = bisect_left(self._bounds, value)
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            counts[place] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + value

    def samples(self) -> Iterable[Sample]:
        """Its numbers now."""
        with self._lock:
            found = [(key, list(counts), self._sums[key]) for key, counts in sorted(self._counts.items())]
        for key, counts, total in found:
            labels = dict(zip(self._names, key, strict=True))
            below = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                below += count
                yield "_bucket", {**labels, "le": _number(bound)}, float(below)
            yield "_sum", labels, total
            yield "_count", labels, float(below)


class CallbackMetric:
    """Something that is looked up when it is asked for."""

    def __init__(
        self, look: Callable[[], Iterable[tuple[Labels, float]]], kind: Literal["gauge", "counter"] = "gauge"
    ) -> None:
        self._look, self.kind = look, kind

    def samples(self) -> Iterable[Sample]:
        """Its numbers now."""
        for labels, value in self._look():
            yield "", labels, value


class MetricRegistry:
    """All that is measured, by name."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, MetricCounter | MetricHistogram | CallbackMetric]] = {}

    def add(self, name: str, about: str, family: MetricCounter | MetricHistogram | CallbackMetric) -> None:
        """Show this family under this name."""
        assert name not in self._families
        self._families[name] = about, family

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        lines: list[str] = []
        for name, (about, family) in self._families.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {family.kind}"]
            lines += [
                f"{name}{suffix}{_labels(at)} {_number(value)}" for suffix, at, value in family.samples()
            ]
        return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
