"""Do the indexes hold what the store says? Every row is compared, and some of them are searched for."""

from collections.abc import Iterator, Mapping

import numpy as np

from index.base import Engine, Segment, Space
from index.derived import BATCH, NEVER, derive
from index.engines.scoring import lengths
from index.truth.store import Store
from multifold.types import Vectors

SAMPLED = 64  # rows of each index that are searched for
NEAREST = 10
SLACK = 0.05  # of recall: the sample is small
CLOSE = 1e-4  # of a vector's length, as computed in batches of other sizes


class Seen:
    """Rows of one index as one number each: their vectors, seen from one direction that is drawn by lot."""

    def __init__(self, direction: np.ndarray) -> None:
        self._direction = direction
        self._rows, self._marks, self._lengths = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
        self.sample: Vectors = np.empty((0, len(direction)), np.float32)

    def add(self, rows: np.ndarray, vectors: Vectors) -> None:
        """See more rows; some of their vectors are kept to search for."""
        self._rows.append(rows)
        self._marks.append(vectors.astype(np.float64) @ self._direction)
        self._lengths.append(lengths(vectors))
        seen = np.concatenate([self.sample, vectors[:: max(1, len(vectors) // SAMPLED)]])
        self.sample = seen[:: max(1, len(seen) // SAMPLED)][:SAMPLED]

    def ordered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows in order, what each looks like, and how far off that may be."""
        rows = np.concatenate(self._rows)
        order = np.argsort(rows)
        return rows[order], np.concatenate(self._marks)[order], CLOSE * np.concatenate(self._lengths)[order]


def disagreements(
    engines: Mapping[Segment, Engine], store: Store, space: Space, recall: float
) -> Iterator[str]:
    """One sentence for each index that is not what the store of this moment makes of it."""
    direction = np.random.default_rng().standard_normal(space.dim) / space.dim**0.5
    expected = _expected(store, space, direction)
    for segment in sorted(expected.keys() | engines.keys()):
        wanted, found = expected.get(segment, Seen(direction)), Seen(direction)
        engine = engines.get(segment)
        for rows, vectors in engine.blocks() if engine is not None else ():
            found.add(rows, vectors)
        trouble = _difference(wanted, found)
        if trouble is None and engine is not None and engine.count():
            trouble = _missed(engine, wanted.sample, recall)
        if trouble is not None:
            yield f"The index of {' '.join(segment)} rows {trouble}."


def _expected(store: Store, space: Space, direction: np.ndarray) -> dict[Segment, Seen]:
    made: dict[Segment, Seen] = {}
    with store.since(NEVER, BATCH) as progress:
        for batch in progress.batches():
            for new in derive(batch, space):
                made.setdefault(new.segment, Seen(direction)).add(new.rows, new.vectors)
    return made


def _difference(wanted: Seen, found: Seen) -> str | None:
    rows, marks, slack = wanted.ordered()
    there, looks, _ = found.ordered()
    if len(rows) != len(there):
        return f"has {len(there)} rows, and the store makes {len(rows)}"
    other = (rows != there) | (np.abs(marks - looks) > slack)
    return f"has another vector than the store for row {rows[other][0]}" if other.any() else None


def _missed(engine: Engine, vectors: Vectors, recall: float) -> str | None:
    """Whether fewer neighbours are found than the plan promises."""
    limit = min(NEAREST, engine.count())
    true, _ = engine.search(vectors, limit, exact=True)
    scores, _ = engine.search(vectors, limit)
    reached = float(np.mean(scores >= true[:, -1:]))
    return None if reached >= recall - SLACK else f"finds {reached:.3f} of the nearest, not {recall}"
