"""Rows of an engine in memory: one growing block, ids rising, removed rows marked until compaction."""

import numpy as np
from jaxtyping import Bool, Float32

from index.base import EngineError, Ids, Paired
from index.scoring import lengths
from multifold.types import Vectors

SMALLEST = 256  # rows a buffer starts with
TOLERATED = 4  # compaction when more than one row in so many is dead


class RowBuffer:
    """Ids rise with position, so a tie that goes to the first position goes to the smallest id."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._used = 0
        self._dead = 0
        self._allocate(SMALLEST)

    def __len__(self) -> int:
        return self._used - self._dead

    @property
    def ids(self) -> Ids:
        """Every id, those of dead rows too."""
        return self._ids[: self._used]

    @property
    def vectors(self) -> Vectors:
        """Every vector, those of dead rows too."""
        return self._vectors[: self._used]

    @property
    def lengths(self) -> Float32[np.ndarray, " b"]:
        """The length of every vector, those of dead rows too."""
        return self._lengths[: self._used]

    def positions(self, allowed: Ids | None = None) -> Ids | None:
        """Where the living (and allowed) rows lie, rising; None stands for every row."""
        if allowed is not None:
            return self._find(_rising(allowed))
        return np.flatnonzero(self._alive[: self._used]) if self._dead else None

    def append(self, ids: Paired, vectors: Vectors) -> None:
        """Add rows. Rising ids are appended; any other order sorts the whole buffer once."""
        if vectors.shape != (len(ids), self._dim):
            raise EngineError(f"{len(ids)} ids need as many vectors of {self._dim}, not {vectors.shape}")
        order = np.argsort(ids, kind="stable")
        ids, vectors = ids[order], vectors[order]
        self._refuse_known(ids)
        if len(ids) and self._used and ids[0] <= self._ids[self._used - 1]:
            self._merge(ids, vectors)
        else:
            self._extend(ids, vectors)

    def drop(self, ids: Ids) -> None:
        """Mark rows as dead; compact when too many are."""
        positions = self._find(_rising(ids))
        self._alive[positions] = False
        self._dead += len(positions)
        if self._dead * TOLERATED > self._used:
            self._merge(np.empty(0, np.int64), np.empty((0, self._dim), np.float32))

    def _refuse_known(self, ids: Ids) -> None:
        known = ids[:-1][ids[1:] == ids[:-1]]
        if not len(known):
            known = self.ids[self._find(ids)]
        if len(known):
            raise EngineError(f"row {known[0]} is already there: remove it first")

    def _find(self, ids: Ids) -> Ids:
        """Positions of those rising ids that are there and alive."""
        places = np.searchsorted(self.ids, ids)
        places, ids = places[places < self._used], ids[places < self._used]
        places = places[self._ids[places] == ids]
        living: Ids = places[self._alive[places]]
        return living

    def _merge(self, ids: Paired, vectors: Vectors) -> None:
        living = np.flatnonzero(self._alive[: self._used])
        ids = np.concatenate([self._ids[living], ids])
        vectors = np.concatenate([self._vectors[living], vectors])
        order = np.argsort(ids, kind="stable")
        self._allocate(max(SMALLEST, len(ids)))
        self._used = self._dead = 0
        self._extend(ids[order], vectors[order])

    def _extend(self, ids: Paired, vectors: Vectors) -> None:
        end = self._used + len(ids)
        if end > len(self._ids):
            self._grow(max(end, len(self._ids) * 3 // 2))
        new = slice(self._used, end)
        self._ids[new], self._vectors[new], self._alive[new] = ids, vectors, True
        self._lengths[new] = lengths(vectors)
        self._used = end

    def _allocate(self, capacity: int) -> None:
        self._ids: Ids = np.empty(capacity, np.int64)
        self._vectors: Vectors = np.empty((capacity, self._dim), np.float32)
        self._lengths: Float32[np.ndarray, " b"] = np.empty(capacity, np.float32)
        self._alive: Bool[np.ndarray, " b"] = np.zeros(capacity, np.bool_)

    def _grow(self, capacity: int) -> None:
        held = self.ids, self.vectors, self.lengths, self._alive[: self._used]
        self._allocate(capacity)
        n = self._used
        self._ids[:n], self._vectors[:n], self._lengths[:n], self._alive[:n] = held


def _rising(ids: Ids) -> Ids:
    """Sorted, each once (np.unique hashes, which takes many times as long here)."""
    ids = np.sort(ids)
    fresh = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=fresh[1:])
    return ids[fresh]
