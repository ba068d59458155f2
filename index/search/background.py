"""The background of a collection: items that stand for all others, by which scores are standardised."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from index.contracts import Ids
from index.store.browse import sample_editions
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection

BACKGROUND_ITEMS = 256


@dataclass(eq=False)
class BackgroundSample:
    """Editions that lie evenly over a collection, drawn again when it has changed much."""

    _editions: Ids = field(default_factory=partial(np.empty, 0, np.int64))
    _size: int = 0  # of the collection when they were drawn
    _version: int = 0

    def editions(self, now: Connection, size: int, version: int) -> Ids:
        """The present sample, rising, of a collection of about so many items; what is written anew leaves it.

        All of a small collection are in it, so a restart changes no answer there. Engines may count items
        that ended, the sample has none.
        """
        small = min(size, len(self._editions)) < BACKGROUND_ITEMS
        changed = abs(version - self._version) > (0 if small else size / 4)
        if changed or not self._size * 4 / 5 <= size <= max(self._size * 5 / 4, 1):
            self._editions, self._size, self._version = sample_editions(now, BACKGROUND_ITEMS), size, version
        return self._editions
