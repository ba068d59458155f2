"""The same directions, asked of a running service that holds the items of the test set.

Whatever else it holds is part of the gallery. What nobody can ask a service for is left out: single views
as queries, and observations that answer each for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from multifold.client.client import Client, Search
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Pooling, Side
from multifold.wire.search import SearchAnswer
from training.retrieval.directions import RetrievalDirection, drop_unanswerable, relevant_columns
from training.retrieval.features import FeatureBank, HeldOutFeatures, make_bank, make_text_bank

PAGE = 100
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

    def add(self, found: Sequence[tuple[int, float]]) -> None:
        """Add a page of hits; it is the last one if no relevant item is to come that matters."""
        self.scores.update(found)
        met = sorted((self.scores[item] for item in self.right & self.scores.keys()), reverse=True)[:ENOUGH]
        whole = len(met) == min(ENOUGH, len(self.right))
        self.done = len(found) < PAGE or (whole and found[-1][1] < met[-1])


def features_unknown(entries: Sequence[ManifestEntry]) -> HeldOutFeatures:
    """Banks without features: which item has what, and which texts are equal."""
    captions = [entry.texts for entry in entries]

    def blank(counts: Sequence[int]) -> FeatureBank:
        return make_bank(np.empty((sum(counts), 0), np.float32), counts)

    said = make_text_bank(np.empty((sum(map(len, captions)), 0), np.float32), captions)
    photos, shapes = (
        [len(entry.images) for entry in entries],
        [int(entry.mesh is not None) for entry in entries],
    )
    return HeldOutFeatures(captions, said, blank(photos), blank(shapes))


def direction(
    client: Client, entries: Sequence[ManifestEntry], name: str, pool: Pooling, *, equal_texts: bool = False
) -> RetrievalDirection | None:
    observed = features_unknown(entries)
    asking, answering = DIRECTIONS[name]
    queries, columns = getattr(observed, asking), getattr(observed, answering).first()
    if not len(queries) or not len(columns):
        return None
    relevant = relevant_columns(observed, queries, columns, equal_texts)
    names = {entries[owner].id: place for place, owner in enumerate(columns.owners)}
    sheets = [QueryScores(frozenset(np.flatnonzero(row).tolist())) for row in relevant]
    searches = [replace(one, target=answering, pool=pool, limit=PAGE) for one in _searches(entries, asking)]
    _ask(client, list(zip(searches, sheets, strict=True)), names, SEARCHES_AT_ONCE[asking], name)
    strangers = max(client.count() - len(entries), len(names) - len(columns))
    rows = np.stack([_row(sheet, len(columns) + strangers) for sheet in sheets])
    return drop_unanswerable(
        RetrievalDirection(rows, np.pad(relevant, ((0, 0), (0, strangers))), queries.owners)
    )


def _searches(entries: Sequence[ManifestEntry], asking: Side) -> list[Search]:
    if asking == "text":
        return [Search(text=text) for entry in entries for text in entry.texts]
    if asking == "image":
        return [Search(image=path) for entry in entries for path in entry.images]
    return [Search(id=entry.id, side="shape") for entry in entries if entry.mesh is not None]


def _ask(
    client: Client,
    asked: Sequence[tuple[Search, QueryScores]],
    names: dict[str, int],
    at_once: int,
    what: str,
) -> None:
    """Page by page, until no relevant hit is to come; items outside the test set get columns of their own."""
    for start in tqdm(range(0, len(asked), at_once), desc=what, unit="batch", disable=None):
        waiting = [(search, sheet) for search, sheet in asked[start : start + at_once] if sheet.right]
        offset = 0
        while waiting:
            found = client.search_many([replace(search, offset=offset) for search, _ in waiting])
            for (_, sheet), answer in zip(waiting, found, strict=True):
                if not isinstance(answer, SearchAnswer):
                    raise MultifoldError(f"the service refused a search: {answer.message}")
                sheet.add([(names.setdefault(hit.id, len(names)), hit.score) for hit in answer.hits])
            waiting = [(search, sheet) for search, sheet in waiting if not sheet.done]
            offset += PAGE


def _row(sheet: QueryScores, gallery: int) -> Float32[np.ndarray, " g"]:
    """Scores of all items; those that were not found are below the last hit."""
    row = np.full(gallery, min(sheet.scores.values(), default=0.0) - 1, np.float32)
    for item, score in sheet.scores.items():
        row[item] = score
    return row
