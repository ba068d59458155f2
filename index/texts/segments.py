"""Items in segments, which are merged as they grow: how an index of texts takes changes.

A segment is made of whole items and does not change, but for which of them are alive. Questions see the
segments of one moment and wait for nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Int64

from index.contracts import Ids
from index.texts.contracts import Scores, TextIndexError
from multifold.rising import find_rising

MERGED_ITEMS = 256  # items of segments that are always merged
STRIDE = 128  # scores at most that are represented by their best in a first pass

S = TypeVar("S", bound="TextSegment")


@dataclass(frozen=True, eq=False)
class TextSegment:
    """Some items, and where what is written of each begins; the last one's end is there too."""

    editions: Ids  # rising
    starts: Int64[np.ndarray, " i"]
    alive: Bool[np.ndarray, " n"]

    @classmethod
    def read(cls: type[S], arrays: Mapping[str, np.ndarray]) -> S:
        return cls(alive=np.ones(len(arrays["editions"]), np.bool_), **arrays)

    def saved(self) -> Mapping[str, np.ndarray]:
        """What is saved of a segment of which all is alive."""
        return {name: array for name, array in vars(self).items() if name != "alive"}

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return sum(getattr(self, one.name).nbytes for one in fields(self))

    def count(self) -> int:
        return int(np.count_nonzero(self.alive))

    def places(self, editions: Ids) -> Ids:
        """Where living editions stand; -1 for others."""
        return find_rising(np.ascontiguousarray(editions), self.editions, self.alive)

    def allowed(self, editions: Ids | None) -> Bool[np.ndarray, " n"]:
        """Which items are alive, and among some editions if they are given."""
        return self.alive if editions is None else self.alive & np.isin(self.editions, editions)


class TextSegments(Generic[S]):
    """All segments of an index. One thread at a time changes them."""

    def __init__(self, merge: Callable[[Sequence[S]], S]) -> None:
        """`merge` makes one of what is alive in some."""
        self._merge = merge
        self.now: tuple[S, ...] = ()

    def check_new(self, editions: Ids) -> None:
        """Refuse editions that stand twice, or are there already."""
        there = [part.places(editions) >= 0 for part in self.now]
        if len(np.unique(editions)) < len(editions) or np.any(there):
            raise TextIndexError("An edition stands twice among the texts: which of the two is meant?")

    def add(self, new: S) -> None:
        self._show([*self.now, new])

    def remove(self, editions: Sequence[int], note: Callable[[S], object] = lambda _: None) -> None:
        """Remove editions; those that were there are noted, as a segment of their own."""
        ended = np.unique(np.array(editions, np.int64))
        for part in self.now:
            places = part.places(ended)
            places = places[places >= 0]
            if len(places):
                part.alive[places] = False
                only = np.zeros_like(part.alive)
                only[places] = True
                note(self._merge([replace(part, alive=only)]))
        self._show(self.now)

    def replace(self, parts: Sequence[S]) -> None:
        """Have these segments instead."""
        self.now = (*parts,)

    def saved(self) -> dict[str, Mapping[str, np.ndarray]]:
        """What is saved: all that is alive, in one segment; none if there is nothing."""
        if len(self.now) > 1 or not all(part.alive.all() for part in self.now):
            self.replace([self._merge(self.now)])
        return {"segment": part.saved() for part in self.now}  # noqa: B035 (there is one)

    def count(self) -> int:
        return sum(part.count() for part in self.now)

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file they take."""
        return sum(part.nbytes for part in self.now)

    def _show(self, parts: Sequence[S]) -> None:
        """Let questions see these, merged as far as it pays."""
        parts = [part for part in parts if part.alive.any()]
        first = max(len(parts) - 1, 0)
        tail = sum(part.count() for part in parts[first:])
        while first and parts[first - 1].count() <= max(tail, MERGED_ITEMS):
            first -= 1
            tail += parts[first].count()
        if len(parts) - first > 1:
            parts[first:] = [self._merge(parts[first:])]
        self.replace([self._merge([part]) if 2 * part.count() < len(part.alive) else part for part in parts])


@dataclass(frozen=True, eq=False)
class LivingItems:
    """What is alive in some segments, in the order of editions: what a merged one is made of."""

    editions: Ids
    starts: Int64[np.ndarray, " i"]
    chosen: Ids  # of all that is written in the segments, one after the other

    @classmethod
    def of(cls, parts: Sequence[TextSegment]) -> "LivingItems":
        """Those of these segments."""
        living = [np.flatnonzero(part.alive) for part in parts]
        offsets = ends_of([int(part.starts[-1]) for part in parts])
        every = list(zip(parts, living, offsets.tolist(), strict=False))
        editions = np.concatenate([part.editions[some] for part, some, _ in every])
        begins = np.concatenate([part.starts[some] + offset for part, some, offset in every])
        sizes = np.concatenate([part.starts[some + 1] - part.starts[some] for part, some, _ in every])
        order = np.argsort(editions)
        starts = ends_of(sizes[order])
        chosen = np.repeat(begins[order] - starts[:-1], sizes[order]) + np.arange(starts[-1])
        return cls(editions[order], starts, chosen)

    def joined(self, written: Sequence[np.ndarray]) -> np.ndarray:
        """What they have of what is written in each segment."""
        every = written[0] if len(written) == 1 else np.concatenate(written)
        return np.asarray(every[self.chosen])


def ends_of(sizes: Sequence[int] | Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " m"]:
    """Where parts of these sizes begin, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.asarray(sizes, np.int64), out=ends[1:])
    return ends


def places_of_best(scores: Scores, limit: int) -> Ids:
    """Places of the best `limit` scores above 0, rising; all that tie with the last one are among them."""
    if limit < 1:
        return np.empty(0, np.int64)
    stride = min(STRIDE, len(scores) // (4 * limit))
    floor = np.float32(0)
    if stride > 1:
        best = scores[: len(scores) // stride * stride].reshape(stride, -1).max(axis=0)
        floor = np.partition(best, len(best) - limit)[len(best) - limit]
    places = np.flatnonzero(scores >= floor if floor > 0 else scores > 0)
    if limit < len(places):
        some = scores[places]
        places = places[some >= np.partition(some, len(some) - limit)[len(some) - limit]]
    return places
