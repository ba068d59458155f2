"""Walks to the root and explanations, of one collection: between the routes and the kernel's maths."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from app.errors import ApiError
from app.observer import Observer
from app.service import Look, Service
from multifold import traversal
from multifold.encoder import Encoder
from multifold.explanation import Explainer, HeatMap, Method, Words, part, token_scores
from multifold.scores import likeness, signed
from multifold.traversal import Path, Pool
from multifold.types import SIDE_OF, Feature, Hit, Item, Observation, Pixels, Query, Side, Vector, pool_mean

NEAR = 5  # captions of the collection that each step may meet
SHADES = {"white": (255, 255, 255), "black": (0, 0, 0)}


@dataclass(frozen=True)
class Walked:
    """Paths, and whose caption is whose."""

    paths: tuple[Path, ...]
    owners: dict[str, str]


@dataclass(frozen=True, eq=False)
class Asked:
    """The query: its vector, and what it was if that was a picture or a text."""

    vector: Vector
    seen: Pixels | None = None
    text: str | None = None


@dataclass(frozen=True)
class Why:
    """A heat map or words with shares; neither for a mesh, an item or a vector."""

    heat_map: HeatMap | None = None
    words: Words | None = None


@lru_cache(maxsize=8)
def bundle_pool(encoder: Encoder) -> Pool:
    """The captions that an encoder's bundle brings along."""
    return traversal.pool_of(encoder, encoder.bundle.pool())


@lru_cache(maxsize=8)
def explainer(encoder: Encoder) -> Explainer:
    """What explains an encoder's scores."""
    return Explainer(encoder)


def forget() -> None:
    """Encoders have been replaced: keep nothing of those before."""
    bundle_pool.cache_clear()
    explainer.cache_clear()


def walk(service: Service, feature: Feature, steps: int, widths: Sequence[float], captions: str) -> Walked:
    """From a feature to the root, by captions of the bundle, of the collection, or of both."""
    encoder = service.encoder
    if widths and not encoder.entails:
        raise ApiError(
            422, "no_cones", f"the geometry {encoder.bundle.geometry.name} has no cones; ask without widths"
        )
    own, owners = _near(service, feature, steps) if captions != "bundle" else (None, {})
    brought = bundle_pool(encoder) if captions != "collection" and encoder.bundle.pool() else None
    pools = [pool for pool in (own, brought) if pool is not None]
    if not pools:
        return Walked(tuple(Path(k, ()) for k in (None, *widths)), {})
    pool = pools[0] if len(pools) == 1 else pools[0] + pools[1]
    return Walked(traversal.traverse(encoder, feature, pool, steps, (None, *widths)), owners)


def _near(service: Service, feature: Feature, steps: int) -> tuple[Pool | None, dict[str, str]]:
    """The captions of the collection that are nearest to some step, and whose they are."""
    line = service.encoder.vectors(traversal.line(service.encoder, feature, steps))
    looks = [Look(Query(vector, "text", NEAR, "max")) for vector in line]
    hits = [hit for found in service.search(looks) for hit in found.hits]
    features = {hit.matched.text: hit.matched.feature for hit in hits if hit.matched.text is not None}
    owners = {hit.matched.text: hit.id for hit in reversed(hits) if hit.matched.text is not None}
    if not features:
        return None, {}
    return Pool(tuple(features), np.stack([*features.values()])), owners


def scores(encoder: Encoder, query: Vector, features: Sequence[Feature]) -> list[float]:
    """The index score of each feature with a query."""
    found: list[float] = likeness(encoder, query[None], encoder.vectors(np.stack(features)))[0].tolist()
    return found


def side_scores(encoder: Encoder, query: Vector, item: Item) -> dict[Side, float]:
    """The index score of each side of an item, its observations as one."""
    sides: dict[Side, list[Feature]] = {}
    for one in item.observations:
        sides.setdefault(SIDE_OF[one.kind], []).append(one.feature)
    pooled = [pool_mean(np.stack(features)) for features in sides.values()]
    return dict(zip(sides, scores(encoder, query, pooled), strict=True))


def mixed_sides(service: Service, parts: Sequence[tuple[Vector, float]], hit: Hit) -> dict[Side, float]:
    """The same of a hit with several queries: the weighted sum; nothing of an item that has just gone."""
    item = service.collection.get(hit.id)
    if item is None:
        return {}
    each = [(side_scores(service.encoder, vector, item), weight) for vector, weight in parts]
    return {side: sum(weight * found[side] for found, weight in each) for side in each[0][0]}


def tokens(encoder: Encoder, query: Vector, feature: Feature) -> list[float]:
    """The share of each pair of tokens in a score, for encoders that compare several."""
    parts = encoder.bundle.geometry.tokens
    if parts == 1:
        return []
    shares: list[float] = token_scores(query, encoder.vectors(feature[None])[0], parts).tolist()
    return shares


def explain(
    service: Service,
    asked: Asked,
    observation: Observation,
    method: Method | None = None,
    token: int | None = None,
) -> tuple[Why, Why]:
    """What in an observation, and what in the query, made their score, or one pair of tokens' share of it."""
    encoder = service.encoder
    (vector,) = encoder.vectors(observation.feature[None])
    ours, theirs = signed(np.stack([asked.vector, vector]), encoder.query_signs)
    if token is not None:
        ours, theirs = (part(one, token, encoder.bundle.geometry.tokens) for one in (ours, theirs))
    known = explainer(encoder)
    seen = _seen(service, observation)
    blank = SHADES[encoder.bundle.views.background]
    return (
        Why(
            None if seen is None else known.picture(seen, ours, method, blank),
            None if observation.text is None else known.text(observation.text, ours, method),
        ),
        Why(
            None if asked.seen is None else known.picture(asked.seen, theirs, method, blank),
            None if asked.text is None else known.text(asked.text, theirs, method),
        ),
    )


def _seen(service: Service, observation: Observation) -> Pixels | None:
    """An observation's picture as the encoder takes it."""
    if observation.blob is None:
        return None
    observer: Observer = service.observer
    return observer.look(service.collection.blobs.get(observation.blob))
