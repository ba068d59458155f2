"""The candidates that pass a filter, remembered as bitmaps over all editions.

Editions are listed in the order of their numbers, so a newer one takes the next place and no bitmap of a
condition changes for the editions that it covers: it is extended by reading newer editions only. Ended
editions keep their places and bits. That is harmless where rows are searched, for engines have no rows of
them, and when many may have ended the list begins again.
"""

import threading
from collections import OrderedDict
from collections.abc import Sized
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool

from index.contracts import NEVER, Ids
from index.engine_set.engine_set import Candidates
from index.store import filters
from index.store.filters import AndFilter, Filter, LeafFilter, NotFilter, OrFilter
from index.store.metadata import last_change
from multifold.errors import needs_extra
from multifold.rising import ALL, find_rising

with needs_extra("serve"):
    from sqlalchemy import Connection

MAX_FOLLOWED_CHANGES = 4_096  # changes that are no reason to begin afresh
MAX_REMEMBERED = 64  # conditions and filters that are remembered
MOST_BITS, MOST_EDITIONS = 1 << 26, 1 << 20  # of all of them together
REREAD = 4  # a bitmap that misses more than one place in so many is read from the start

K = TypeVar("K")
V = TypeVar("V", bound=Sized)
Bits: TypeAlias = Bool[np.ndarray, " _"]


@dataclass(eq=False)
class FilterCache:
    """The list of editions of one collection and bitmaps over it, at the version that was asked for last."""

    _version: int = NEVER
    _begun: int = NEVER  # the version that the list began with
    _begun_with: int = 0  # editions
    _editions: Ids = field(default_factory=partial(np.empty, 0, np.int64))
    _sizes: Ids = field(default_factory=partial(np.empty, 0, np.int64))
    _leaves: OrderedDict[LeafFilter, Bits] = field(default_factory=OrderedDict)
    _filters: OrderedDict[Filter, Candidates] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def candidates(
        self, now: Connection, where: Filter, version: int, *, strong: bool = True
    ) -> Candidates | None:
        """What passes at a version; None if the list is further, or `now` shows another and is needed.

        If it is not `strong`, a list that is further will do: what ended meanwhile may be missing.
        """
        with self._lock:
            if version < self._version and not strong:
                return self._among_first(now, where, int(np.searchsorted(self._editions, version, "right")))
            cached = self._version == version and where in self._filters
            if not cached and (version < self._version or last_change(now) != version):
                return None
            self._advance(now, version)
            if where not in self._filters:
                self._filters[where] = self._among_first(now, where, len(self._editions))
            return _recent(self._filters, where, MOST_EDITIONS)

    def _among_first(self, now: Connection, where: Filter, count: int) -> Candidates:
        """What passes of so many editions of the list."""
        bits = self._bits(now, where, count)
        return Candidates(self._editions[:count][bits], self._sizes[:count][bits], where)

    def _advance(self, now: Connection, version: int) -> None:
        """Extend the list of editions up to this version."""
        if version == self._version:
            return
        if version - self._begun > max(MAX_FOLLOWED_CHANGES, self._begun_with // 2):
            self._reset(version)
        last = int(self._editions[-1]) if len(self._editions) else NEVER
        new = filters.newer_editions(now, last)
        self._editions = np.concatenate([self._editions, new[:, 0]])
        self._sizes = np.concatenate([self._sizes, new[:, 1]])
        self._filters.clear()
        self._version = version
        self._begun_with = self._begun_with or len(new)

    def _reset(self, version: int) -> None:
        """Empty the cache, and begin with this version."""
        self._version, self._begun, self._begun_with = NEVER, version, 0
        self._editions = self._sizes = np.empty(0, np.int64)
        self._leaves.clear()
        self._filters.clear()

    def _bits(self, now: Connection, where: Filter, count: int) -> Bits:
        """What passes of so many editions; of ended ones some do."""
        if isinstance(where, AndFilter):
            everything = np.ones(count, np.bool_)
            return reduce(np.logical_and, (self._bits(now, part, count) for part in where.parts), everything)
        if isinstance(where, OrFilter):
            return reduce(np.logical_or, (self._bits(now, part, count) for part in where.parts))
        if isinstance(where, NotFilter):
            return ~self._bits(now, where.part, count)
        return self._leaf(now, where, count)

    def _leaf(self, now: Connection, leaf: LeafFilter, count: int) -> Bits:
        bits = self._leaves.get(leaf, np.empty(0, np.bool_))
        if leaf not in self._leaves or len(bits) < count:
            self._leaves[leaf] = self._extended(now, leaf, bits, count)
        return _recent(self._leaves, leaf, MOST_BITS)[:count]

    def _extended(self, now: Connection, leaf: LeafFilter, bits: Bits, count: int) -> Bits:
        """The bits of a leaf for so many editions of the list."""
        editions = self._editions[:count]
        missing = count - len(bits)
        near = len(bits) and missing * REREAD <= count
        after = int(editions[len(bits) - 1]) if near else None
        longer = np.zeros(count, np.bool_)
        longer[: len(bits)] = bits
        places = find_rising(filters.matching_editions(now, leaf, after), editions, ALL)
        longer[places[places >= 0]] = True
        return longer


def _recent(cache: OrderedDict[K, V], key: K, most: int) -> V:
    """What is cached under a key; the least recently used are dropped."""
    cache.move_to_end(key)
    while len(cache) > 1 and (len(cache) > MAX_REMEMBERED or sum(map(len, cache.values())) > most):
        cache.popitem(last=False)
    return cache[key]
