"""Queries that came: some are kept, and asked again exactly, so that the recall of what was served is known.

One is kept now and then, for they are to tell of many hours, and exact answers take time. Where no queries
are known when rows are sealed, those that came are the probes.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32

from multifold.types import Vectors

Scores: TypeAlias = Float32[np.ndarray, "q k"]

KEEP_SECONDS = 0.25  # seconds between two queries that are kept,
SHARE = 50  # and so many times what the check of one took
CHECKED_QUERIES = 256
TELLING_QUERIES = 32  # that tell anything


@dataclass(frozen=True)
class ServedRecall:
    """The share of true rows in answers that were served, and its standard error."""

    mean: float
    error: float
    answers: int


class ServedQueries:
    """A sample of the queries of one engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = self._next = 0.0  # of the last check, and when another is due
        self._queries = deque[Vectors](maxlen=CHECKED_QUERIES)
        self._shares = deque[float](maxlen=CHECKED_QUERIES)
        self.unlike = 0  # that were compared with every row of a part, since nothing like them was measured

    def due(self) -> bool:
        """Whether it is time to check a query; true for one caller, who lets it `rest` afterwards."""
        with self._lock:
            due = time.monotonic() >= self._next
            if due:
                self._begun, self._next = time.monotonic(), np.inf
        return due

    def count_unlike(self, count: int) -> None:
        """So many more were unlike all that was measured."""
        with self._lock:
            self.unlike += count

    def keep(self, query: Vectors) -> None:
        """Keep a query as a probe."""
        with self._lock:
            self._queries.append(query)

    def compare(self, found: Scores, exact: Scores) -> None:
        """Note how much an answer had of the exact one."""
        with self._lock:
            self._shares.append(float((found >= exact[:, -1:]).mean()))

    def rest(self) -> None:
        """After a check: the next is due in a while, the longer the longer this one took."""
        now = time.monotonic()
        self._next = now + max(KEEP_SECONDS, SHARE * (now - self._begun))

    def wait(self, seconds: float) -> None:
        """Check nothing for a while."""
        self._next = time.monotonic() + seconds

    def recall(self) -> ServedRecall | None:
        """What the recall of late was; None: too few answers to tell."""
        with self._lock:
            shares = np.array(self._shares)
        if len(shares) < TELLING_QUERIES:
            return None
        return ServedRecall(float(shares.mean()), float(shares.std() / np.sqrt(len(shares))), len(shares))

    def probes(self, count: int) -> Vectors | None:
        """The last of the queries; None: too few to measure with."""
        with self._lock:
            queries = list(self._queries)[-count:]
        return np.concatenate(queries) if len(queries) >= TELLING_QUERIES else None

    def forget_answers(self) -> None:
        """Begin anew with answers, for the engine searches in another way now."""
        with self._lock:
            self._shares.clear()
