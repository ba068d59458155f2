"""Do engines hold what the store says, and find what is near?"""

from collections.abc import Iterator, Mapping

import numpy as np

from index.contracts import NEVER, EngineKey, IndexEngine, IndexPlan, Space
from index.engines.scoring import lengths
from index.store.item_rows import OBSERVATIONS_AT_ONCE, derive_usable_rows
from index.store.metadata import ChangesSince
from index.store.store import Store
from multifold.types import Vectors

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


def find_engine_problems(
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
