"""Is a collection sound? Every row and picture of it is looked at, and nothing is changed."""

from collections.abc import Iterator

import numpy as np

from index.truth.blobs import BlobError, Blobs
from index.truth.changelog import last_change
from index.truth.codec import FLOAT
from index.truth.lock import blobs_kept
from index.truth.schema import changes, items, observations
from index.truth.store import Store
from index.upkeep.snapshot import blob_keys
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, func, select

ROWS = 2_000  # looked at together


def troubles(blobs: Blobs, store: Store) -> Iterator[str]:
    """One sentence for each thing that is wrong with the store and the pictures, of one version."""
    with blobs_kept(blobs.home), store.moment() as now:
        yield from store.unsound()
        yield from _counts(now)
        yield from _features(now, store.feature_length)
        yield from _pictures(now, blobs)


def _counts(now: Connection) -> Iterator[str]:
    held = select(observations.c.edition, func.count().label("held")).group_by(observations.c.edition)
    counted = held.subquery()
    joined = items.outerjoin(counted, items.c.edition == counted.c.edition)
    wrong = select(items.c.id, items.c.size, counted.c.held).select_from(joined)
    for name, size, held_here in now.execute(wrong.where(items.c.size != func.coalesce(counted.c.held, 0))):
        yield f"Item {name!r} should have {size} observations, and {held_here or 0} are there."
    last = last_change(now)
    for what, column in (("an item", items.c.edition), ("the log", changes.c.sequence)):
        highest = now.scalar(select(func.max(column))) or 0
        if highest > last:
            yield f"The clock stands at {last}, and {what} has the number {highest}."


def _features(now: Connection, length: int | None) -> Iterator[str]:
    rows = select(items.c.id, observations.c.kind, observations.c.ordinal, observations.c.feature)
    rows = rows.join(items, items.c.edition == observations.c.edition)
    for some in now.execute(rows, execution_options={"yield_per": ROWS}).partitions():
        for name, kind, ordinal, feature in some:
            if length is None or len(feature) != length * FLOAT.itemsize:
                yield f"Item {name!r}: {kind} {ordinal} has a feature of {len(feature)} bytes."
            elif not np.isfinite(np.frombuffer(feature, FLOAT)).all():
                yield f"Item {name!r}: {kind} {ordinal} has a feature with numbers that are not finite."


def _pictures(now: Connection, blobs: Blobs) -> Iterator[str]:
    for key in blob_keys(now):
        try:
            blobs.get(key)
        except BlobError as error:
            yield f"Picture {key}: {error}"
