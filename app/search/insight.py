"""Traversals to the root and explanations of a match, for one collection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from app.collections.collections import CollectionService
from app.errors import ApiError
from index.search.search import SearchRequest
from multifold.analysis import explanation, traversal
from multifold.analysis.explanation import Explainer, HeatMap, WordShares, isolate_part
from multifold.analysis.traversal import CaptionPath, CaptionPool
from multifold.bundle.encoder import Encoder
from multifold.scores import apply_signs, similarities
from multifold.types import (
    SIDE_OF,
    ExplanationMethod,
    Feature,
    Hit,
    Item,
    Observation,
    Pixels,
    Query,
    Side,
    Vector,
    pool_mean,
)

CAPTIONS_A_STEP = 5  # captions of the collection that are nearest to each step
BACKGROUND_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0)}


@dataclass(frozen=True)
class CaptionTraversal:
    """Paths, and the item of each caption."""

    paths: tuple[CaptionPath, ...]
    owners: dict[str, str]


@dataclass(frozen=True, eq=False)
class ExplanationQuery:
    """The query: its vector, and its picture or text if it had one."""

    vector: Vector
    pixels: Pixels | None = None
    text: str | None = None


@dataclass(frozen=True)
class MatchEvidence:
    """A heat map or words with shares; neither for a mesh, an item or a vector."""

    heat_map: HeatMap | None = None
    words: WordShares | None = None


@lru_cache(maxsize=8)
def bundle_pool(encoder: Encoder) -> CaptionPool:
    return traversal.caption_pool(encoder, encoder.bundle.pool())


@lru_cache(maxsize=8)
def explainer(encoder: Encoder) -> Explainer:
    return Explainer(encoder)


def clear_caches() -> None:
    """Forget the encoders that have been replaced."""
    bundle_pool.cache_clear()
    explainer.cache_clear()


def traverse_captions(
    service: CollectionService, feature: Feature, steps: int, widths: Sequence[float], captions: str
) -> CaptionTraversal:
    """From a feature to the root, by captions of the bundle, of the collection, or of both."""
    encoder = service.encoder
    if widths and not encoder.entails:
        raise ApiError(
            422, "no_cones", f"the geometry {encoder.bundle.geometry.name} has no cones; ask without widths"
        )
    own, owners = _nearest_captions(service, feature, steps) if captions != "bundle" else (None, {})
    bundled = bundle_pool(encoder) if captions != "collection" and encoder.bundle.pool() else None
    pools = [pool for pool in (own, bundled) if pool is not None]
    if not pools:
        return CaptionTraversal(tuple(CaptionPath(k, ()) for k in (None, *widths)), {})
    pool = pools[0] if len(pools) == 1 else pools[0] + pools[1]
    return CaptionTraversal(traversal.traverse(encoder, feature, pool, steps, (None, *widths)), owners)


def _nearest_captions(
    service: CollectionService, feature: Feature, steps: int
) -> tuple[CaptionPool | None, dict[str, str]]:
    """The captions of the collection that are nearest to any step, and the item of each."""
    line = service.encoder.vectors(traversal.line_to_root(service.encoder, feature, steps))
    requests = [SearchRequest(Query(vector, "text", CAPTIONS_A_STEP, "max")) for vector in line]
    hits = [hit for page in service.collection.search_many(requests) for hit in page]
    features = {hit.matched.text: hit.matched.feature for hit in hits if hit.matched.text is not None}
    owners = {hit.matched.text: hit.id for hit in reversed(hits) if hit.matched.text is not None}
    if not features:
        return None, {}
    return CaptionPool(tuple(features), np.stack([*features.values()])), owners


def score_features(encoder: Encoder, query: Vector, features: Sequence[Feature]) -> list[float]:
    """The index score of each feature with a query."""
    scores: list[float] = similarities(encoder, query[None], encoder.vectors(np.stack(features)))[0].tolist()
    return scores


def score_sides(encoder: Encoder, query: Vector, item: Item) -> dict[Side, float]:
    """The index score of each side of an item, its observations as one."""
    sides: dict[Side, list[Feature]] = {}
    for one in item.observations:
        sides.setdefault(SIDE_OF[one.kind], []).append(one.feature)
    pooled = [pool_mean(np.stack(features)) for features in sides.values()]
    return dict(zip(sides, score_features(encoder, query, pooled), strict=True))


def with_side_scores(
    service: CollectionService, parts: Sequence[tuple[Vector, float]], hits: Sequence[Hit]
) -> list[Hit]:
    """Hits with the weighted sum of the parts' scores for each side; none for an item that has just gone."""

    def scores(item: Item | None) -> dict[Side, float]:
        if item is None:
            return {}
        each = [(score_sides(service.encoder, vector, item), weight) for vector, weight in parts]
        return {side: sum(weight * of_part[side] for of_part, weight in each) for side in each[0][0]}

    return [replace(hit, sides=scores(service.collection.get(hit.id))) for hit in hits]


def token_shares(encoder: Encoder, query: Vector, feature: Feature) -> list[float]:
    """The share of each pair of tokens in a score, for encoders that compare several."""
    parts = encoder.bundle.geometry.tokens
    if parts == 1:
        return []
    shares: list[float] = explanation.token_shares(query, encoder.vectors(feature[None])[0], parts).tolist()
    return shares


def explain_match(
    service: CollectionService,
    query: ExplanationQuery,
    observation: Observation,
    method: ExplanationMethod | None = None,
    token: int | None = None,
) -> tuple[MatchEvidence, MatchEvidence]:
    """What in an observation, and what in the query, made their score, or one pair of tokens' share of it."""
    encoder = service.encoder
    (vector,) = encoder.vectors(observation.feature[None])
    ours, theirs = apply_signs(np.stack([query.vector, vector]), encoder.query_signs)
    if token is not None:
        ours, theirs = (isolate_part(one, token, encoder.bundle.geometry.tokens) for one in (ours, theirs))
    blank = BACKGROUND_COLOURS[encoder.bundle.views.background]

    def evidence(pixels: Pixels | None, text: str | None, other: Vector) -> MatchEvidence:
        return MatchEvidence(
            None if pixels is None else explainer(encoder).picture(pixels, other, method, blank),
            None if text is None else explainer(encoder).text(text, other, method),
        )

    blob = observation.blob
    pixels = None if blob is None else service.observer.look(service.collection.blobs.get(blob))
    return evidence(pixels, observation.text, ours), evidence(query.pixels, query.text, theirs)
