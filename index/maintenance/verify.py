"""Checks of a collection: is its store sound, are its pictures whole, and do its indexes hold what the
store says?
"""

from collections.abc import Iterator, Mapping

import numpy as np
from sqlalchemy import Connection, func, select

from index.contracts import EngineKey, IndexEngine, IndexPlan, Space
from index.engine_set.engine_set import NEVER, OBSERVATIONS_AT_ONCE
from index.engines.scoring import lengths
from index.maintenance.snapshot import named_blob_keys
from index.store.blobs import BlobError, Blobs
from index.store.checksums import find_damage
from index.store.folder_locks import keep_blobs
from index.store.item_rows import FEATURE_DTYPE, derive_usable_rows
from index.store.metadata import ACTIONS, ChangesSince, last_change, pruned_until
from index.store.schema import changes, items, observations
from index.store.store import Store
from multifold.types import Vectors

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


SAMPLED = 64  # rows of each index that are searched for
COMPARED_HITS = 10
RECALL_SLACK = 0.05  # of recall: the sample is small
CLOSE = 1e-4  # of a vector's length, as computed in batches of other sizes


class RowFingerprints:
    """Rows of one index as one number each: their vectors, seen from one direction that is drawn by lot."""

    def __init__(self, direction: np.ndarray) -> None:
        self._direction = direction
        self._rows = [np.empty(0, np.int64)]
        self._marks = [np.empty(0)]
        self._lengths = [np.empty(0)]
        self.sample: Vectors = np.empty((0, len(direction)), np.float32)

    def add(self, rows: np.ndarray, vectors: Vectors) -> None:
        """See more rows; some of their vectors are kept to search for."""
        self._rows.append(rows)
        self._marks.append(vectors.astype(np.float64) @ self._direction)
        self._lengths.append(lengths(vectors))
        sample = np.concatenate([self.sample, vectors[:: max(1, len(vectors) // SAMPLED)]])
        self.sample = sample[:: max(1, len(sample) // SAMPLED)][:SAMPLED]

    def ordered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows in order, what each looks like, and how far off that may be."""
        rows = np.concatenate(self._rows)
        order = np.argsort(rows)
        return rows[order], np.concatenate(self._marks)[order], CLOSE * np.concatenate(self._lengths)[order]


def find_index_problems(
    engines: Mapping[EngineKey, IndexEngine], store: Store, space: Space, plan: IndexPlan
) -> Iterator[str]:
    """One sentence for each index that is not what the store of this moment makes of it."""
    direction = np.random.default_rng().standard_normal(space.dim) / space.dim**0.5
    expected = _expected(store, space, direction)
    for segment in sorted(expected.keys() | engines.keys()):
        wanted = expected.get(segment, RowFingerprints(direction))
        stored = RowFingerprints(direction)
        engine = engines.get(segment)
        for rows, vectors in engine.blocks() if engine is not None else ():
            stored.add(rows, vectors)
        problem = _difference(wanted, stored)
        if problem is None and engine is not None and engine.count():
            problem = _missed(engine, wanted.sample, plan.recall)
        if problem is not None:
            yield f"The index of {' '.join(segment)} rows {problem}."


def _expected(store: Store, space: Space, direction: np.ndarray) -> dict[EngineKey, RowFingerprints]:
    fingerprints: dict[EngineKey, RowFingerprints] = {}
    with store.moment() as now:
        for batch in ChangesSince(now, NEVER, OBSERVATIONS_AT_ONCE).batches():
            for new in derive_usable_rows(batch, space):
                marks = fingerprints.setdefault(new.segment, RowFingerprints(direction))
                marks.add(new.rows, new.vectors)
    return fingerprints


def _difference(wanted: RowFingerprints, stored: RowFingerprints) -> str | None:
    rows, marks, slack = wanted.ordered()
    there, looks, _ = stored.ordered()
    if len(rows) != len(there):
        return f"has {len(there)} rows, and the store makes {len(rows)}"
    other = (rows != there) | (np.abs(marks - looks) > slack)
    return f"has another vector than the store for row {rows[other][0]}" if other.any() else None


def _missed(engine: IndexEngine, vectors: Vectors, recall: float) -> str | None:
    """Whether fewer neighbours are found than the plan promises."""
    limit = min(COMPARED_HITS, engine.count())
    true, _ = engine.search(vectors, limit, exact=True)
    scores, _ = engine.search(vectors, limit)
    reached = float(np.mean(scores >= true[:, -1:]))
    return None if reached >= recall - RECALL_SLACK else f"finds {reached:.3f} of the nearest, not {recall}"
