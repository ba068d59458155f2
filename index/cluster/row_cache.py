"""Vectors that a cluster has sent. A row is written once and never changes, so they stay right."""

import threading

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids, PairedIds
from multifold.types import Vectors

CACHE_BYTES = 1 << 24
FIRST_ROWS = 256


class RowCache:
    """Vectors by row; all go when they take too many bytes."""

    def __init__(self, dim: int, most_bytes: int = CACHE_BYTES) -> None:
        self.room = max(1, most_bytes // (4 * dim))  # rows
        self._places: dict[int, int] = {}
        self._vectors = np.empty((FIRST_ROWS, dim), np.float32)
        self._used = 0  # places of vectors, also of those that were forgotten
        self._lock = threading.Lock()

    def find(self, ids: Ids) -> tuple[Bool[np.ndarray, " k"], Vectors]:
        """Which of these rows are kept, and their vectors."""
        with self._lock:
            places = np.array([self._places.get(row, -1) for row in ids.tolist()], np.int64)
            known = places >= 0
            return known, self._vectors[places[known]]

    def keep(self, ids: PairedIds, vectors: Vectors) -> None:
        with self._lock:
            new = [place for place, row in enumerate(ids.tolist()) if row not in self._places]
            if self._used + len(new) > self.room:
                self._places.clear()
                self._used = 0
                new = list(range(min(len(ids), self.room)))
            end = self._used + len(new)
            while end > len(self._vectors):
                self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
            self._vectors[self._used : end] = vectors[new]
            self._places.update(zip(ids[new].tolist(), range(self._used, end), strict=True))
            self._used = end

    def forget(self, ids: Ids) -> None:
        """Rows that are removed, or may have another vector from now on."""
        with self._lock:
            for row in ids.tolist():
                self._places.pop(row, None)
