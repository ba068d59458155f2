"""Traversals to the root and explanations of a match, for one collection."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from app.collections.service import CollectionService
from app.encoding.no_encoder import NoEncoderError
from app.errors import ApiError
from app.ingest.originals import find_stored_mesh
from app.queries.parts import ImageQueryPart, QueryPart, TextQueryPart
from index.search.query import Query
from index.store import browse
from multifold import types
from multifold.analysis import explanation, traversal
from multifold.analysis.explanation import HeatMap, WordShares, check_method, isolate_part
from multifold.analysis.surface import DRAWN, SurfaceShares, explain_surface
from multifold.analysis.traversal import CaptionPath, CaptionPool
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import POSITION
from multifold.scores import apply_signs, similarities
from multifold.types import SIDES, ExplanationMethod, Feature, Hit, Item, Kind, Observation, Side, Vector
from multifold.wire.insight import ExplainOptions
from renderers.cameras import rig

CAPTIONS_A_STEP = 5  # captions of the collection that are nearest to each step
HITS_A_STEP = 32  # that are explained together, while others wait
PICTURES: tuple[Kind, ...] = ("photo", "view")
BACKGROUND_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0)}

CaptionTraversal: TypeAlias = tuple[Sequence[CaptionPath], dict[str, str]]  # and the item of each caption
ExplainedSurface: TypeAlias = tuple[SurfaceShares, Sequence[HeatMap]]  # and a heat map for each view
MatchEvidence: TypeAlias = tuple[HeatMap | None, WordShares | None]  # neither for a mesh, an item or a vector
WeightedVector: TypeAlias = tuple[Vector, float]
Scored: TypeAlias = tuple[float, Observation]
NO_MESH = "the mesh of this item is not kept here, so its points cannot be drawn"


@lru_cache(maxsize=8)
def bundle_pool(encoder: Encoder) -> CaptionPool:
    return traversal.caption_pool(encoder, encoder.bundle.pool())


def clear_caches() -> None:
    bundle_pool.cache_clear()


def traverse_captions(
    service: CollectionService, feature: Feature, steps: int, widths: Sequence[float], captions: str
) -> CaptionTraversal:
    """From a feature to the root, by captions of the bundle, of the collection, or of both."""
    encoder = service.encoder
    if not encoder.encodes:
        raise NoEncoderError
    if widths and not encoder.entails:
        sentence = f"the geometry {encoder.bundle.geometry.name} has no cones; ask without widths"
        raise ApiError(422, "no_cones", sentence)
    own, owners = _nearest_captions(service, feature, steps) if captions != "bundle" else (None, {})
    bundled = bundle_pool(encoder) if captions != "collection" and encoder.bundle.pool() else None
    pools = [pool for pool in (own, bundled) if pool is not None]
    if not pools:
        return [CaptionPath(k, ()) for k in (None, *widths)], {}
    pool = pools[0] if len(pools) == 1 else pools[0] + pools[1]
    return traversal.traverse(encoder, feature, pool, steps, (None, *widths)), owners


def _nearest_captions(
    service: CollectionService, feature: Feature, steps: int
) -> tuple[CaptionPool | None, dict[str, str]]:
    """The captions of the collection that are nearest to any step, and the item of each."""
    line = service.encoder.vectors(traversal.line_to_root(service.encoder, feature, steps))
    queries = [Query(vector, "text", CAPTIONS_A_STEP, "max", strong=False) for vector in line]
    hits = [hit for page in service.collection.search_many(queries) for hit in page]
    features = {hit.matched.text: hit.matched.feature for hit in hits if hit.matched.text is not None}
    owners = {hit.matched.text: hit.id for hit in reversed(hits) if hit.matched.text is not None}
    if not features:
        return None, {}
    return CaptionPool(tuple(features), np.stack([*features.values()])), owners


def score_features(encoder: Encoder, query: Vector, features: Sequence[Feature]) -> list[float]:
    scores: list[float] = similarities(encoder, query[None], encoder.vectors(np.stack(features)))[0].tolist()
    return scores


def score_sides(
    encoder: Encoder, parts: Sequence[WeightedVector], items: Sequence[Item]
) -> list[dict[Side, float]]:
    """The weighted sum of the parts' index scores for each side of each item, its observations as one."""
    scores: list[dict[Side, float]] = [{} for _ in items]
    pooled = [
        (place, side, types.pool_mean(np.stack(features)))
        for place, item in enumerate(items)
        for side in SIDES
        if (features := types.features_of(item.observations, side))
    ]
    if pooled:
        queries = np.stack([vector for vector, _ in parts])
        weights = np.array([weight for _, weight in parts])
        vectors = encoder.vectors(np.stack([feature for _, _, feature in pooled]))
        sums = weights @ similarities(encoder, queries, vectors)
        for (place, side, _), score in zip(pooled, sums.tolist(), strict=True):
            scores[place][side] = score
    return scores


async def with_side_scores(
    service: CollectionService, parts: Sequence[WeightedVector], hits: Sequence[Hit]
) -> list[Hit]:
    """Hits with the scores of their sides; none for an item that has just gone."""

    def explain(some: Sequence[Hit]) -> list[Hit]:
        items = service.collection.read(browse.items_of, [hit.id for hit in some])
        scores = dict(zip(items, score_sides(service.encoder, parts, [*items.values()]), strict=True))
        return [replace(hit, sides=scores.get(hit.id, {})) for hit in some]

    steps = [hits[start : start + HITS_A_STEP] for start in range(0, len(hits), HITS_A_STEP)]
    explained = await asyncio.gather(
        *(service.searches.ask(partial(explain, some), admitted=True) for some in steps)
    )
    return [hit for some in explained for hit in some]


async def with_looks(
    service: CollectionService, hits: Sequence[Hit], fields: Sequence[str] | None
) -> list[Hit]:
    """Hits with what the picture that matched looks like, where the encoder has names for that.

    That is one of the fields that may be asked for; None: all are.
    """
    seen = [hit for hit in hits if hit.matched.kind in PICTURES]
    wanted = fields is None or "looks_like" in fields
    if not wanted or service.encoder.looks is None or not seen:
        return [*hits]
    features = np.stack([hit.matched.feature for hit in seen])
    names = iter(await service.run(partial(service.encoder.name_pictures, features), admitted=True))
    return [replace(hit, looks_like=next(names)) if hit.matched.kind in PICTURES else hit for hit in hits]


def token_shares(encoder: Encoder, query: Vector, feature: Feature) -> list[float]:
    """The share of each pair of tokens in a score, for encoders that compare several."""
    if (parts := encoder.bundle.geometry.tokens) == 1:
        return []
    shares: list[float] = explanation.token_shares(query, encoder.vectors(feature[None])[0], parts).tolist()
    return shares


def explain_points(service: CollectionService, query: Vector, item: Item) -> ExplainedSurface | None:
    """Which parts of an item's surface made the score of its points; none if its mesh is not kept here."""
    encoder = service.encoder
    observer = service.observer
    mesh = find_stored_mesh(service.collection.blobs, service.home, item)
    if mesh is None:
        return None
    sample, drawn = (observer.sample(mesh, count).rows() for count in (None, DRAWN))
    (other,) = apply_signs(query[None], encoder.query_signs)
    shares = explain_surface(
        sample, other, lambda samples: encoder.vectors(encoder.points(samples)), encoder.metric
    )
    cameras = rig(encoder.bundle.views.rig)
    return shares, shares.maps(drawn[:, POSITION], cameras.poses, cameras.fov_degrees)


def explain_match(
    service: CollectionService,
    query: Vector,
    query_pixels: types.Pixels | None,
    query_text: str | None,
    observation: Observation,
    method: ExplanationMethod | None,
    token: int | None,
) -> tuple[MatchEvidence, MatchEvidence]:
    """What in an observation, and what in the query, made their score, or one pair of tokens' share of it."""
    check_method(method)
    encoder = service.encoder
    (vector,) = encoder.vectors(observation.feature[None])
    ours, theirs = apply_signs(np.stack([query, vector]), encoder.query_signs)
    if token is not None:
        ours, theirs = (isolate_part(one, token, encoder.bundle.geometry.tokens) for one in (ours, theirs))
    blank = BACKGROUND_COLOURS[encoder.bundle.views.background]

    def evidence(pixels: types.Pixels | None, text: str | None, other: Vector) -> MatchEvidence:
        heat_map = None if pixels is None else explanation.occlude_picture(encoder, pixels, other, blank)
        return heat_map, None if text is None else explanation.occlude_text(encoder, text, other)

    blob = observation.blob
    pixels = None if blob is None else service.observer.look(service.collection.blobs.get(blob))
    return evidence(pixels, observation.text, ours), evidence(query_pixels, query_text, theirs)


@dataclass(frozen=True)
class ItemExplanation:
    """All scores of an item with a query, and what in one observation and in the query made them."""

    item: Item
    sides: Mapping[Side, float]
    ranked: Sequence[Scored]  # its observations, best first
    explained: Scored
    tokens: Sequence[float]
    evidence: MatchEvidence
    surface: ExplainedSurface | None
    query_evidence: MatchEvidence
    notes: tuple[str, ...] = ()


def explain_item(
    service: CollectionService, part: QueryPart, query: Vector, options: ExplainOptions
) -> ItemExplanation:
    """Why an item matches a query part, whose index vector is given."""
    encoder = service.encoder
    item = service.item(options.item)
    scores = score_features(encoder, query, [one.feature for one in item.observations])
    ranked = sorted(zip(scores, item.observations, strict=True), key=lambda pair: -pair[0])
    explained = _choose_observation(options, ranked)
    observation = explained[1]
    evidence: MatchEvidence = (None, None)
    query_evidence: MatchEvidence = (None, None)
    surface: ExplainedSurface | None = None
    notes: tuple[str, ...] = ()
    if options.maps and observation.kind == "points":
        surface = explain_points(service, query, item)
        notes = (NO_MESH,) if surface is None else ()
    if options.maps:
        pixels = service.observer.look(part.data) if isinstance(part, ImageQueryPart) else None
        text = part.text if isinstance(part, TextQueryPart) else None
        evidence, query_evidence = explain_match(
            service, query, pixels, text, observation, options.method, options.token
        )
    return ItemExplanation(
        item=item,
        sides=score_sides(encoder, [(query, 1.0)], [item])[0],
        ranked=ranked,
        explained=explained,
        tokens=token_shares(encoder, query, observation.feature),
        evidence=evidence,
        surface=surface,
        query_evidence=query_evidence,
        notes=notes,
    )


def _choose_observation(options: ExplainOptions, ranked: Sequence[Scored]) -> Scored:
    """The best of the observations that are meant, with its score."""
    if options.index is not None and options.kind is None:
        raise ApiError(422, "bad_query", "'index' needs 'kind': the first caption, the first view, …")
    for score, one in ranked:
        if options.kind in (None, one.kind) and options.index in (None, one.index):
            return score, one
    name = f"{options.kind} {'' if options.index is None else options.index}".strip()
    raise ApiError(404, "not_found", f"the item {options.item!r} has no {name}")
