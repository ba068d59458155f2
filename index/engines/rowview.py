"""Rows of an engine at one moment: nothing in a view changes, so it is searched without a lock."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Int64

from index.base import Block, Ids, Paired
from index.engines.scoring import lengths
from multifold.types import Vectors

BLOCK = 8192  # rows


@dataclass(frozen=True, eq=False)
class RowView:
    """Ids rise with position, so a tie that goes to the first position goes to the smallest id."""

    ids: Int64[np.ndarray, " g"]
    vectors: Float32[np.ndarray, "g d"]
    lengths: Float32[np.ndarray, " g"]
    alive: Bool[np.ndarray, " g"] | None = None  # None: all of them

    def __len__(self) -> int:
        return len(self.ids) - self.dead

    @cached_property
    def dead(self) -> int:
        """How many rows are removed, and still lie here."""
        return 0 if self.alive is None else int(len(self.alive) - np.count_nonzero(self.alive))

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        return float(self.lengths.max(initial=0.0))

    def positions(self, allowed: Ids | None = None) -> Ids | None:
        """Where the living (and allowed) rows lie, rising; None stands for every row."""
        if allowed is not None:
            return self.find(rising(allowed))
        return np.flatnonzero(self.alive) if self.dead and self.alive is not None else None

    def find(self, ids: Ids) -> Ids:
        """Positions of those rising ids that are there and alive."""
        places = np.searchsorted(self.ids, ids)
        inside = places < len(self.ids)
        places, ids = places[inside], ids[inside]
        places = places[self.ids[places] == ids]
        living: Ids = places if self.alive is None else places[self.alive[places]]
        return living

    def blocks(self, allowed: Ids | None = None) -> Iterator[Block]:
        """The living (and allowed) rows, some at a time."""
        places = self.positions(allowed)
        for start in range(0, len(self.ids) if places is None else len(places), BLOCK):
            some = slice(start, start + BLOCK) if places is None else places[start : start + BLOCK]
            yield self.ids[some], self.vectors[some]

    def without(self, ids: Ids) -> "RowView":
        """The view after these ids were removed; this one stays as it is."""
        places = self.find(rising(ids))
        if not len(places):
            return self
        alive = np.ones(len(self.ids), np.bool_) if self.alive is None else self.alive.copy()
        alive[places] = False
        return replace(self, alive=alive)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the living vectors, spread evenly."""
        places = np.arange(len(self.ids)) if self.alive is None else np.flatnonzero(self.alive)
        taken = min(count, len(places))
        return self.vectors[places[np.arange(taken) * len(places) // max(1, taken)]]

    def living_ids(self) -> Ids:
        """Ids of the living rows."""
        return self.ids if self.alive is None else self.ids[self.alive]

    def living(self) -> tuple[Ids, Vectors]:
        """Ids and vectors of the living rows."""
        places = self.positions()
        return (self.ids, self.vectors) if places is None else (self.ids[places], self.vectors[places])


def view_of(ids: Paired, vectors: Vectors) -> RowView:
    """Rows put in the order of their ids."""
    if not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        ids, vectors = ids[order], vectors[order]
    return RowView(ids, vectors, lengths(vectors))


def rising(ids: Ids) -> Ids:
    """Sorted, each once (np.unique hashes, which takes many times as long here)."""
    if (ids[1:] > ids[:-1]).all():
        return ids
    ids = np.sort(ids)
    fresh = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=fresh[1:])
    return ids[fresh]
