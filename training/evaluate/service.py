"""The same directions, measured on a running service that holds the items of the test set.

All its other items are part of the gallery. Two things cannot be searched there, and are left out: single
views as queries, and single observations as hits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from multifold.client import Client, Search
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Pooling, Side
from multifold.wire.search import SearchAnswer
from training.retrieval.directions import RetrievalDirection, relevant_columns
from training.retrieval.features import FeatureBank, HeldOutFeatures, make_bank, make_text_bank

ITEMS_A_REQUEST = 100
SEARCHES_AT_ONCE: Mapping[Side, int] = {"text": 32, "image": 4, "shape": 32}  # searches in one request
ENOUGH = 5  # right items whose places matter
POOLS: tuple[Pooling, ...] = ("mean", "max")
DIRECTIONS: Mapping[str, tuple[Side, Side]] = {
    "text_to_shape": ("text", "shape"),
    "shape_to_text": ("shape", "text"),
    "text_to_image": ("text", "image"),
    "image_to_text": ("image", "text"),
    "image_to_shape": ("image", "shape"),
}


@dataclass
class QueryScores:
    """Scores of the items that a query has found so far."""

    right: frozenset[int]
    scores: dict[int, float] = field(default_factory=dict)
    done: bool = False

    def add(self, hits: Sequence[tuple[int, float]]) -> None:
        """Add a page of hits; it is the last one if no relevant item is to come that matters."""
        self.scores.update(hits)
        right = sorted((self.scores[item] for item in self.right & self.scores.keys()), reverse=True)[:ENOUGH]
        complete = len(right) == min(ENOUGH, len(self.right))
        self.done = len(hits) < ITEMS_A_REQUEST or (complete and hits[-1][1] < right[-1])


def features_unknown(entries: Sequence[ManifestEntry]) -> HeldOutFeatures:
    """Banks without features: which item has what, and which texts are equal."""
    captions = [entry.texts for entry in entries]

    def blank(counts: Sequence[int]) -> FeatureBank:
        return make_bank(np.empty((sum(counts), 0), np.float32), counts)

    texts = make_text_bank(np.empty((sum(map(len, captions)), 0), np.float32), captions)
    photos, shapes = [len(one.images) for one in entries], [int(one.mesh is not None) for one in entries]
    return HeldOutFeatures(captions, texts, blank(photos), blank(shapes))


def direction(
    client: Client, entries: Sequence[ManifestEntry], name: str, pool: Pooling, *, equal_texts: bool = False
) -> RetrievalDirection | None:
    observed = features_unknown(entries)
    side, target = DIRECTIONS[name]
    queries = getattr(observed, side)
    columns = getattr(observed, target).first()
    if not len(queries) or not len(columns):
        return None
    relevant = relevant_columns(observed, queries, columns, equal_texts)
    names = {entries[owner].id: place for place, owner in enumerate(columns.owners)}
    scores = [QueryScores(frozenset(np.flatnonzero(row).tolist())) for row in relevant]
    searches = [
        replace(one, target=target, pool=pool, limit=ITEMS_A_REQUEST) for one in _searches(entries, side)
    ]
    _run_searches(client, list(zip(searches, scores, strict=True)), names, SEARCHES_AT_ONCE[side], name)
    others = max(client.count() - len(entries), len(names) - len(columns))
    rows = np.stack([_row(one, len(columns) + others) for one in scores])
    padded = np.pad(relevant, ((0, 0), (0, others)))
    return RetrievalDirection(rows, padded, queries.owners).answerable()


def _searches(entries: Sequence[ManifestEntry], side: Side) -> list[Search]:
    if side == "text":
        return [Search(text=text) for entry in entries for text in entry.texts]
    if side == "image":
        return [Search(image=path) for entry in entries for path in entry.images]
    return [Search(id=entry.id, side="shape") for entry in entries if entry.mesh is not None]


def _run_searches(
    client: Client, searches: Sequence[tuple[Search, QueryScores]], ids: dict[str, int], batch: int, name: str
) -> None:
    """Page by page, until no relevant hit is to come; items outside the test set get columns of their own."""
    for start in tqdm(range(0, len(searches), batch), desc=name, unit="batch", disable=None):
        waiting = [(search, scores) for search, scores in searches[start : start + batch] if scores.right]
        offset = 0
        while waiting:
            answers = client.search_many([replace(search, offset=offset) for search, _ in waiting])
            for (_, scores), answer in zip(waiting, answers, strict=True):
                if not isinstance(answer, SearchAnswer):
                    raise MultifoldError(f"the service refused a search: {answer.message}")
                scores.add([(ids.setdefault(hit.id, len(ids)), hit.score) for hit in answer.hits])
            waiting = [(search, scores) for search, scores in waiting if not scores.done]
            offset += ITEMS_A_REQUEST


def _row(query: QueryScores, gallery: int) -> Float32[np.ndarray, " g"]:
    """Scores of all items; those that were not found are below the last hit."""
    row = np.full(gallery, min(query.scores.values(), default=0.0) - 1, np.float32)
    for item, score in query.scores.items():
        row[item] = score
    return row
