"""Traversals to the root and explanations of a match, for one collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from app.collections.service import CollectionQuery, CollectionService
from app.encoding.observations import ObservationEncoder
from app.errors import ApiError
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

CAPTIONS_A_STEP = 5  # captions of the collection that each step may meet
BACKGROUND_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0)}


@dataclass(frozen=True)
class CaptionTraversal:
    """Paths, and whose caption is whose."""

    paths: tuple[CaptionPath, ...]
    owners: dict[str, str]


@dataclass(frozen=True, eq=False)
class ExplanationQuery:
    """The query: its vector, and what it was if that was a picture or a text."""

    vector: Vector
    seen: Pixels | None = None
    text: str | None = None


@dataclass(frozen=True)
class MatchEvidence:
    """A heat map or words with shares; neither for a mesh, an item or a vector."""

    heat_map: HeatMap | None = None
    words: WordShares | None = None


@lru_cache(maxsize=8)
def bundle_pool(encoder: Encoder) -> CaptionPool:
    """The captions that an encoder's bundle brings along."""
    return traversal.caption_pool(encoder, encoder.bundle.pool())


@lru_cache(maxsize=8)
def explainer(encoder: Encoder) -> Explainer:
    """What explains an encoder's scores."""
    return Explainer(encoder)


def clear_caches() -> None:
    """Encoders have been replaced: keep nothing of those before."""
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
    brought = bundle_pool(encoder) if captions != "collection" and encoder.bundle.pool() else None
    pools = [pool for pool in (own, brought) if pool is not None]
    if not pools:
        return CaptionTraversal(tuple(CaptionPath(k, ()) for k in (None, *widths)), {})
    pool = pools[0] if len(pools) == 1 else pools[0] + pools[1]
    return CaptionTraversal(traversal.traverse(encoder, feature, pool, steps, (None, *widths)), owners)


def _nearest_captions(
    service: CollectionService, feature: Feature, steps: int
) -> tuple[CaptionPool | None, dict[str, str]]:
    """The captions of the collection that are nearest to some step, and whose they are."""
    line = service.encoder.vectors(traversal.line_to_root(service.encoder, feature, steps))
    looks = [CollectionQuery(Query(vector, "text", CAPTIONS_A_STEP, "max")) for vector in line]
    hits = [hit for found in service.search(looks) for hit in found.hits]
    features = {hit.matched.text: hit.matched.feature for hit in hits if hit.matched.text is not None}
    owners = {hit.matched.text: hit.id for hit in reversed(hits) if hit.matched.text is not None}
    if not features:
        return None, {}
    return CaptionPool(tuple(features), np.stack([*features.values()])), owners


def score_features(encoder: Encoder, query: Vector, features: Sequence[Feature]) -> list[float]:
    """The index score of each feature with a query."""
    found: list[float] = similarities(encoder, query[None], encoder.vectors(np.stack(features)))[0].tolist()
    return found


def score_sides(encoder: Encoder, query: Vector, item: Item) -> dict[Side, float]:
    """The index score of each side of an item, its observations as one."""
    sides: dict[Side, list[Feature]] = {}
    for one in item.observations:
        sides.setdefault(SIDE_OF[one.kind], []).append(one.feature)
    pooled = [pool_mean(np.stack(features)) for features in sides.values()]
    return dict(zip(sides, score_features(encoder, query, pooled), strict=True))


def score_mixed_sides(
    service: CollectionService, parts: Sequence[tuple[Vector, float]], hit: Hit
) -> dict[Side, float]:
    """The same of a hit with several queries: the weighted sum; nothing of an item that has just gone."""
    item = service.collection.get(hit.id)
    if item is None:
        return {}
    each = [(score_sides(service.encoder, vector, item), weight) for vector, weight in parts]
    return {side: sum(weight * found[side] for found, weight in each) for side in each[0][0]}


def token_shares(encoder: Encoder, query: Vector, feature: Feature) -> list[float]:
    """The share of each pair of tokens in a score, for encoders that compare several."""
    parts = encoder.bundle.geometry.tokens
    if parts == 1:
        return []
    shares: list[float] = explanation.token_shares(query, encoder.vectors(feature[None])[0], parts).tolist()
    return shares


def explain_match(
    service: CollectionService,
    asked: ExplanationQuery,
    observation: Observation,
    method: ExplanationMethod | None = None,
    token: int | None = None,
) -> tuple[MatchEvidence, MatchEvidence]:
    """What in an observation, and what in the query, made their score, or one pair of tokens' share of it."""
    encoder = service.encoder
    (vector,) = encoder.vectors(observation.feature[None])
    ours, theirs = apply_signs(np.stack([asked.vector, vector]), encoder.query_signs)
    if token is not None:
        ours, theirs = (isolate_part(one, token, encoder.bundle.geometry.tokens) for one in (ours, theirs))
    known = explainer(encoder)
    seen = _observation_pixels(service, observation)
    blank = BACKGROUND_COLOURS[encoder.bundle.views.background]
    return (
        MatchEvidence(
            None if seen is None else known.picture(seen, ours, method, blank),
            None if observation.text is None else known.text(observation.text, ours, method),
        ),
        MatchEvidence(
            None if asked.seen is None else known.picture(asked.seen, theirs, method, blank),
            None if asked.text is None else known.text(asked.text, theirs, method),
        ),
    )


def _observation_pixels(service: CollectionService, observation: Observation) -> Pixels | None:
    """An observation's picture as the encoder takes it."""
    if observation.blob is None:
        return None
    observer: ObservationEncoder = service.observer
    return observer.look(service.collection.blobs.get(observation.blob))
