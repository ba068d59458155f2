"""Which editions of items are alive at the moment of a search, as far as that was asked before.

The log of changes tells which of them have ended since: so most moments ask for what is new alone.
"""

import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from index.contracts import NEVER
from index.store.item_rows import living_editions
from index.store.metadata import ChangesSince, last_change, pruned_until
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection

MOST_EDITIONS = 1 << 18


class LivingEditions:
    """What is known of editions, at the newest moment that asked."""

    def __init__(self) -> None:
        self._version = NEVER
        self._alive: set[int] = set()
        self._versions: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def version_at(self, now: Connection) -> int:
        """The last change at a moment, which is asked once."""
        version = self._versions.get(now)
        if version is None:
            version = self._versions[now] = last_change(now)
        return version

    def among(self, now: Connection, editions: Sequence[int]) -> set[int]:
        """Those of these editions that are alive at a moment."""
        version = self.version_at(now)
        with self._lock:
            if version < self._version:  # what has ended since is not known any more
                return {*living_editions(now, editions)}
            self._advance(now, version)
            known = self._alive.intersection(editions)
        unknown = [edition for edition in editions if edition not in known]
        found = {*living_editions(now, unknown)} if unknown else set()
        with self._lock:
            if version == self._version:
                self._alive |= found
        return known | found

    def _advance(self, now: Connection, version: int) -> None:
        if version == self._version:
            return
        if self._version < pruned_until(now) or len(self._alive) > MOST_EDITIONS:
            self._alive.clear()
        if self._alive:
            self._alive -= {edition for edition, _ in ChangesSince(now, self._version, 1).ended()}
        self._version = version
