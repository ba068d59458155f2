"""The candidates that pass a filter, remembered as bitmaps over all editions.

The roster lists editions in the order of their numbers, so a newer one takes the next place and no bitmap of
a condition changes behind what it knows: it is extended by asking for newer editions only. Ended editions
keep their places and bits. That is harmless where rows are looked for, for engines have no rows of them, and
when many may have ended everything is begun afresh.
"""

import threading
from collections import OrderedDict
from collections.abc import Sized
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids
from index.store import filters
from index.store.filters import AndFilter, Filter, LeafFilter, NotFilter, OrFilter
from index.store.item_rows import pooled_row, rows_of
from index.store.metadata import last_change
from multifold.errors import needs_extra
from multifold.types import Side

with needs_extra("serve"):
    from sqlalchemy import Connection

NEVER = -1
MAX_FOLLOWED_CHANGES = 4_096  # changes that are no reason to begin afresh
MAX_REMEMBERED = 64  # conditions and filters that are remembered
MOST_BITS, MOST_EDITIONS = 1 << 26, 1 << 20  # of all of them together
REREAD = 4  # a bitmap that misses more than one place in so many is read from the start

K = TypeVar("K")
V = TypeVar("V", bound=Sized)
Bits: TypeAlias = Bool[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Editions that a search may find, rising, and how many observations each has."""

    editions: Ids
    sizes: Ids
    _pooled: dict[Side, Ids] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.editions)

    def pooled(self, side: Side) -> Ids:
        """Their pooled rows of one side."""
        if side not in self._pooled:
            self._pooled[side] = pooled_row(self.editions, side)
        return self._pooled[side]

    @cached_property
    def observed(self) -> Ids:
        """The rows of their observations."""
        return rows_of(self.editions, self.sizes)


class FilterCache:
    """The roster and bitmaps of one collection, at the version that was asked for last."""

    _version: int
    _begun: int  # the version that the roster began with
    _begun_with: int  # editions
    _editions: Ids
    _sizes: Ids
    _leaves: OrderedDict[LeafFilter, Bits]
    _filters: OrderedDict[Filter, Candidates]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reset(NEVER)

    def candidates(self, now: Connection, where: Filter, version: int) -> Candidates | None:
        """Who passes at a version of the store; None if `now` shows another one, and that has to be read."""
        with self._lock:
            known = self._version == version and where in self._filters
            if not known and last_change(now) != version:
                return None
            self._advance(now, version)
            if where not in self._filters:
                bits = self._bits(now, where)
                self._filters[where] = Candidates(self._editions[bits], self._sizes[bits])
            return _recent(self._filters, where, MOST_EDITIONS)

    def _advance(self, now: Connection, version: int) -> None:
        """Let the roster know the editions up to this version."""
        if version == self._version:
            return
        if version - self._begun > max(MAX_FOLLOWED_CHANGES, self._begun_with // 2):
            self._reset(version)
        new = filters.newer_editions(now, self._last)
        self._editions = np.concatenate([self._editions, new[:, 0]])
        self._sizes = np.concatenate([self._sizes, new[:, 1]])
        self._filters.clear()
        self._version = version
        self._begun_with = self._begun_with or len(new)

    def _reset(self, version: int) -> None:
        """Know nothing, and begin with this version."""
        self._version, self._begun, self._begun_with = NEVER, version, 0
        self._editions = self._sizes = np.empty(0, np.int64)
        self._leaves, self._filters = OrderedDict(), OrderedDict()

    @property
    def _last(self) -> int:
        return int(self._editions[-1]) if len(self._editions) else NEVER

    def _bits(self, now: Connection, where: Filter) -> Bits:
        """Who passes; ended editions anyhow."""
        if isinstance(where, AndFilter):
            everybody = np.ones(len(self._editions), np.bool_)
            return reduce(np.logical_and, (self._bits(now, part) for part in where.parts), everybody)
        if isinstance(where, OrFilter):
            return reduce(np.logical_or, (self._bits(now, part) for part in where.parts))
        if isinstance(where, NotFilter):
            return ~self._bits(now, where.part)
        return self._leaf(now, where)

    def _leaf(self, now: Connection, leaf: LeafFilter) -> Bits:
        bits = self._leaves.get(leaf)
        if bits is None or len(bits) < len(self._editions):
            self._leaves[leaf] = self._extended(now, leaf, np.empty(0, np.bool_) if bits is None else bits)
        return _recent(self._leaves, leaf, MOST_BITS)

    def _extended(self, now: Connection, leaf: LeafFilter, bits: Bits) -> Bits:
        """The bits of a leaf up to the end of the roster."""
        missing = len(self._editions) - len(bits)
        near = len(bits) and missing * REREAD <= len(self._editions)
        after = int(self._editions[len(bits) - 1]) if near else None
        longer = np.zeros(len(self._editions), np.bool_)
        longer[: len(bits)] = bits
        found = filters.matching_editions(now, leaf, after)
        longer[np.searchsorted(self._editions, found)] = True
        return longer


def _recent(kept: OrderedDict[K, V], key: K, most: int) -> V:
    """What is kept under a key; those asked for least lately are let go."""
    kept.move_to_end(key)
    while len(kept) > 1 and (len(kept) > MAX_REMEMBERED or sum(map(len, kept.values())) > most):
        kept.popitem(last=False)
    return kept[key]
