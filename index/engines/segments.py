"""Segments of an engine: their rows, index and report."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int64

from index.contracts import NO_ROW, Ids
from index.engines.exact_engine import RowView
from index.engines.faiss_index import FaissIndex, Selection
from index.engines.search_setting import SearchSetting, settings_from_json

UNBUILT = 0.0  # the target of rows that wait for their index


class StepTimes:
    """What the steps of a build take of this thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """The block is this step, or a part of it."""
        begun = time.thread_time()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.thread_time() - begun


@dataclass(frozen=True)
class RejectedType:
    """A type that was tried and missed the target."""

    type: str
    recall: float


@dataclass(frozen=True, eq=False)
class SegmentReport:
    """A sealed segment in figures."""

    type: str
    rows: int
    target: float
    probes: int
    probed_with: str  # queries | rows
    settings: tuple[SearchSetting, ...]  # none: every row is scored
    bytes_per_row: float  # in memory: of the index, the id and, unless it is in a file, the vector
    build_seconds: float
    missed: tuple[RejectedType, ...] = ()
    file_bytes_per_row: float = 0.0  # of a vector that is in a file; 0: vectors are in memory
    steps: Mapping[str, float] = field(default_factory=dict)  # CPU seconds that each step of the build took

    @property
    def waits(self) -> bool:
        """Whether the rows were filled in, and their index is still to be built."""
        return self.target == UNBUILT

    @property
    def recall(self) -> float:
        """Recall of the first ten."""
        return self.settings[0].recall if self.settings else 1.0

    def __str__(self) -> str:
        text = f"{self.rows} rows as {self.type}, {self.bytes_per_row:.0f} bytes a row"
        if self.file_bytes_per_row:
            text += f" in memory and {self.file_bytes_per_row:.0f} in a file"
        for setting in self.settings:
            hardest = f" for {setting.hardest}" if setting.hardest else ""
            text += (
                f"; recall@{setting.limit} {setting.recall:.3f}{hardest} in {setting.seconds * 1e3:.2f} ms"
            )
        if not self.settings:
            text += "; exact"
        for trial in self.missed:
            text += f"; {trial.type} reached only {trial.recall:.3f} of {self.target}"
        if self.steps:
            text += "; built in " + ", ".join(f"{took:.1f} s of {step}" for step, took in self.steps.items())
        return text

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def report_from_json(raw: dict[str, Any]) -> SegmentReport:
    settings = settings_from_json(raw["settings"])
    missed = tuple(RejectedType(**trial) for trial in raw["missed"])
    return SegmentReport(**{**raw, "settings": settings, "missed": missed})


KEPT_SELECTIONS = 8  # lists of allowed rows


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows and, where it pays, their index; sealed once a report says what it is."""

    rows: RowView
    ann: FaissIndex | None = None
    report: SegmentReport | None = None

    @property
    def seal(self) -> SegmentReport:
        """The report of a part that has one."""
        assert self.report is not None
        return self.report

    def ids_at(self, places: Int64[np.ndarray, "q k"]) -> Int64[np.ndarray, "q k"]:
        """The ids of rows at these places, of which -1 is none."""
        ids: Int64[np.ndarray, "q k"] = self.rows.ids[places]
        if (places < 0).any():
            ids[places < 0] = NO_ROW
        return ids

    def selection(self, allowed: Ids | None = None) -> Selection | None:
        """The living (and allowed) rows; None: all. Remembered where nobody can write to what is allowed."""
        if allowed is None:
            return self._living
        for known, selection in [*self._selections]:
            if known is allowed:
                return selection
        chosen = np.zeros(len(self.rows.ids), np.bool_)
        chosen[self.rows.positions(allowed)] = True
        selection = np.packbits(chosen, bitorder="little")
        if not allowed.flags.writeable:
            self._selections.append((allowed, selection))
        return selection

    @cached_property
    def _living(self) -> Selection | None:
        if self.rows.alive is None:
            return None
        living: Selection = np.packbits(self.rows.alive, bitorder="little")
        return living

    @cached_property
    def _selections(self) -> deque[tuple[Ids, Selection]]:
        return deque(maxlen=KEPT_SELECTIONS)
