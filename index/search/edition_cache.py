"""What pages read of editions and their observations, kept in memory: both are written once and never change.

Whether an edition is still there is asked, unless nothing was changed since the search. What is damaged stays
as it was read, until its item is written again, which makes another edition.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from index.store.item_rows import ItemSummary, living_editions, read_observations, read_summaries
from multifold.errors import needs_extra
from multifold.types import Observation

with needs_extra("serve"):
    from sqlalchemy import Connection

CACHE_BYTES = 1 << 25
ENTRY = 512  # bytes, about, that anything takes beside its contents
PARSED = 4  # bytes, about, that a payload takes for each character of its text

Read = TypeVar("Read", ItemSummary, Observation)


class EditionCache:
    """Summaries by edition and observations by row; all go when they take too many bytes."""

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self.nbytes = 0  # about
        self._most_bytes = most_bytes
        self._summaries: dict[int, ItemSummary] = {}
        self._observations: dict[int, Observation] = {}
        self._lock = threading.Lock()

    def summaries(
        self, now: Connection, editions: Sequence[int], *, newest: bool = False
    ) -> dict[int, ItemSummary]:
        """Id, size and payload of these editions; those replaced or deleted are left out.

        `newest`: none of them is known to be replaced or deleted.
        """
        there = editions if newest else living_editions(now, editions)
        return self._find(self._summaries, there, now, read_summaries)

    def observations(self, now: Connection, rows: Sequence[int]) -> dict[int, Observation]:
        """The observations of these rows of editions that are there."""
        return self._find(self._observations, rows, now, read_observations)

    def _find(
        self,
        kept: dict[int, Read],
        keys: Sequence[int],
        now: Connection,
        read: Callable[[Connection, Sequence[int]], dict[int, Read]],
    ) -> dict[int, Read]:
        """What is kept under these keys, and what is read of the others."""
        found = {key: one for key in keys if (one := kept.get(key)) is not None}
        missing = [key for key in keys if key not in found]
        if missing:
            new = read(now, missing)
            self._keep(kept, new)
            found |= new
        return found

    def _keep(self, kept: dict[int, Read], new: Mapping[int, Read]) -> None:
        size = sum(map(size_of, new.values()))
        with self._lock:
            if self.nbytes + size > self._most_bytes:
                self._summaries.clear()
                self._observations.clear()
                self.nbytes = 0
            if size <= self._most_bytes:
                kept.update(new)
                self.nbytes += size


def size_of(one: ItemSummary | Observation) -> int:
    """How many bytes it takes, about."""
    if isinstance(one, ItemSummary):
        return ENTRY + PARSED * len(str(one.payload))
    return ENTRY + one.feature.nbytes + len(one.text or "")
