"""Checks of a collection: is its store sound, and are its pictures whole?"""

from collections.abc import Iterator

import numpy as np
from sqlalchemy import Connection, func, select

from index.maintenance.snapshot import named_blob_keys
from index.store.blobs import BlobError, Blobs
from index.store.checksums import find_damage
from index.store.folder_locks import keep_blobs
from index.store.item_rows import FEATURE_DTYPE
from index.store.metadata import ACTIONS, last_change, pruned_until
from index.store.schema import changes, items, observations
from index.store.store import Store

CHECKED_ROWS = 2_000  # checked together


def find_store_problems(blobs: Blobs, store: Store) -> Iterator[str]:
    """One sentence for each thing that is wrong with the store and the pictures, of one version."""
    with keep_blobs(blobs.home), store.moment() as now:
        yield from store.unsound()
        yield from _counts(now)
        yield from _log(now)
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
    if last > max(highest, pruned_until(now)):
        yield f"The clock stands at {last}, and the log ends before."


def _log(now: Connection) -> Iterator[str]:
    """Each change ended what the one before it had made of its item; the last ones made what is there."""
    pruned = pruned_until(now)
    editions: dict[str, int | None] = {}
    for change in now.execute(select(changes).order_by(changes.c.sequence)):
        known = not pruned or change.item in editions
        if change.action not in ACTIONS or (known and change.replaced != editions.get(change.item)):
            yield f"Change {change.sequence} in the log does not follow from those before it."
        editions[change.item] = change.sequence if change.action == "upsert" else None
    living = {row.id: row.edition for row in now.execute(select(items.c.id, items.c.edition))}
    for name in sorted(living.keys() | editions.keys()):
        if living.get(name, 0) != (editions.get(name) or 0) and (name in editions or not pruned):
            yield f"Item {name!r} is not what the log of changes has made of it."


def _features(now: Connection, length: int | None) -> Iterator[str]:
    for damage in find_damage(now):
        yield f"{damage}."
    rows = select(items.c.id, observations.c.kind, observations.c.ordinal, observations.c.feature)
    rows = rows.join(items, items.c.edition == observations.c.edition)
    for some in now.execute(rows, execution_options={"yield_per": CHECKED_ROWS}).partitions():
        for name, kind, ordinal, feature in some:
            if length is None or len(feature) != length * FEATURE_DTYPE.itemsize:
                yield f"Item {name!r}: {kind} {ordinal} has a feature of {len(feature)} bytes."
            elif not np.isfinite(np.frombuffer(feature, FEATURE_DTYPE)).all():
                yield f"Item {name!r}: {kind} {ordinal} has a feature with numbers that are not finite."


def _pictures(now: Connection, blobs: Blobs) -> Iterator[str]:
    for key in named_blob_keys(now):
        try:
            blobs.get(key)
        except BlobError as error:
            yield f"Picture {key}: {error}"
