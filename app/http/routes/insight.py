"""POST /v1/traverse and /v1/explain: captions on the way to the root, and why an item matches."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from fastapi import APIRouter, Request

from app.errors import ApiError
from app.http.conversion import CollectionDep, parse_query_part, read_body, serialize_observation
from app.http.openapi import body_route
from app.http.schemas.search import ExplainBody, TraverseBody
from app.runtime.runtime import CollectionRuntime
from app.search import insight
from app.search.insight import ExplainedSurface, MatchEvidence
from app.search.query import EncodedPart, ImageQueryPart, QueryPart, TextQueryPart, VectorQueryPart
from multifold.analysis.explanation import HeatMap
from multifold.analysis.traversal import PathCaption
from multifold.types import Observation
from multifold.wire import insight as wire

router = APIRouter(tags=["insight"])
NO_MESH = "the mesh of this item is not kept here, so its points cannot be drawn"
Scored: TypeAlias = tuple[float, Observation]


@router.post("/traverse", **body_route(TraverseBody, 404))
async def traverse(request: Request, runtime: CollectionDep) -> wire.TraverseAnswer:
    """Walk from a text, an image, a mesh or an item to the root; the captions that are met on the way."""
    body = await read_body(request, TraverseBody, runtime.run)
    part = parse_query_part(body, "any", runtime.service.settings.max_text)
    if isinstance(part, VectorQueryPart):
        sentence = "a vector has no feature to walk from; ask with what it was made of"
        raise ApiError(422, "no_feature", sentence)
    encoded = await runtime.query_encoder.encode(part)
    walk = partial(insight.traverse_captions, runtime.service, encoded.feature)
    paths, owners = await runtime.run(lambda: walk(body.steps, body.widths, body.captions))
    encoder = runtime.service.encoder

    def caption(one: PathCaption) -> wire.TraversalCaption:
        return wire.TraversalCaption(one.text, one.position, one.score, owners.get(one.text))

    return wire.TraverseAnswer(
        root="origin" if encoder.entails else "mean",
        cones=encoder.entails,
        steps=body.steps,
        paths=tuple(wire.TraversalPath(path.k, tuple(map(caption, path.met))) for path in paths),
        bundle=encoder.bundle.name,
        warnings=tuple(encoded.warnings),
    )


@router.post("/explain", **body_route(ExplainBody, 404))
async def explain(request: Request, runtime: CollectionDep) -> wire.ExplainAnswer:
    """Why an item matches a query: the score of each observation, and what in the best one made it."""
    body = await read_body(request, ExplainBody, runtime.run)
    part = parse_query_part(body, "any", runtime.service.settings.max_text)
    encoded = await runtime.query_encoder.encode(part)
    return await runtime.run(lambda: _explain(runtime, body, part, encoded))


def _explain(
    runtime: CollectionRuntime, body: ExplainBody, part: QueryPart, encoded: EncodedPart
) -> wire.ExplainAnswer:
    encoder, item = runtime.service.encoder, runtime.service.item(body.item)
    scores = insight.score_features(encoder, encoded.vector, [one.feature for one in item.observations])
    ranked = sorted(zip(scores, item.observations, strict=True), key=lambda pair: -pair[0])
    score, observation = _choose_observation(body, ranked)
    nothing: MatchEvidence = (None, None)
    item_evidence = query_evidence = nothing
    surface, warnings = None, tuple(encoded.warnings)
    if body.maps and observation.kind == "points":
        found = insight.explain_points(runtime.service, encoded.vector, item)
        surface = None if found is None else _serialize_surface(runtime, found)
        warnings += (NO_MESH,) if found is None else ()
    if body.maps:
        pixels = runtime.service.observer.look(part.data) if isinstance(part, ImageQueryPart) else None
        text = part.text if isinstance(part, TextQueryPart) else None
        explain_query = partial(insight.explain_match, runtime.service, encoded.vector, pixels, text)
        item_evidence, query_evidence = explain_query(observation, body.method, body.token)

    def scored(value: float, one: Observation) -> wire.ScoredObservation:
        info = serialize_observation(item.id, one, runtime.address)
        return wire.ScoredObservation(info.kind, info.index, info.url, info.text, score=value)

    explanation = _serialize(runtime, item_evidence)
    return wire.ExplainAnswer(
        item=item.id,
        sides=insight.score_sides(encoder, encoded.vector, item),
        observations=tuple(scored(*pair) for pair in ranked),
        explained=wire.ObservationExplanation(
            explanation.heat_map,
            explanation.words,
            surface,
            observation=scored(score, observation),
            tokens=tuple(insight.token_shares(encoder, encoded.vector, observation.feature)),
        ),
        query=_serialize(runtime, query_evidence),
        bundle=encoder.bundle.name,
        warnings=warnings,
    )


def _choose_observation(body: ExplainBody, ranked: Sequence[Scored]) -> Scored:
    """The best of the observations that the body names, with its score."""
    if body.index is not None and body.kind is None:
        raise ApiError(422, "bad_request", "'index' needs 'kind': the first caption, the first view, …")
    for score, one in ranked:
        if body.kind in (None, one.kind) and body.index in (None, one.index):
            return score, one
    name = f"{body.kind} {'' if body.index is None else body.index}".strip()
    raise ApiError(404, "not_found", f"the item {body.item!r} has no {name}")


def _serialize(runtime: CollectionRuntime, evidence: MatchEvidence) -> wire.MatchExplanation:
    heat_map = words = None
    if evidence[0] is not None:
        heat_map = _serialize_map(runtime, evidence[0])
    if evidence[1] is not None:
        shares = tuple(wire.WordShare(word, round(share, 6)) for word, share in evidence[1].words)
        words = wire.TextShares(evidence[1].method, shares)
    return wire.MatchExplanation(heat_map, words)


def _serialize_map(runtime: CollectionRuntime, heat: HeatMap) -> wire.PictureShares:
    grid = tuple(tuple(round(share, 6) for share in row) for row in heat.grid.tolist())
    return wire.PictureShares(heat.method, grid, runtime.service.encoder.bundle.image.resize == "shortest")


def _serialize_surface(runtime: CollectionRuntime, found: ExplainedSurface) -> wire.MeshShares:
    shares, maps = found
    regions = zip(shares.shares.tolist(), shares.middles.round(4).tolist(), strict=True)
    return wire.MeshShares(
        maps[0].method,
        tuple(
            wire.RegionShare(middle=(x, y, z), share=round(share, 6))
            for share, (x, y, z) in sorted(regions, reverse=True)
        ),
        tuple(_serialize_map(runtime, heat) for heat in maps),
    )
