"""POST /v1/traverse and /v1/explain: captions on the way to the root, and why an item matches."""

from app.errors import ApiError
from app.http import serialization
from app.http.dependencies import CollectionDep
from app.http.openapi import describe_body, error_responses
from app.http.parsing import parse_query_part, read_body
from app.http.schemas.search import ExplainBody, TraverseBody
from app.runtime.runtime import CollectionRuntime
from app.search import insight
from app.search.insight import ExplanationQuery, MatchEvidence
from app.search.query import EncodedPart, ImageQueryPart, QueryPart, TextQueryPart, VectorQueryPart
from multifold.errors import needs_extra
from multifold.types import Item, Observation
from multifold.wire.insight import (
    ExplainAnswer,
    MatchExplanation,
    ObservationExplanation,
    PictureShares,
    ScoredObservation,
    TextShares,
    TraversalCaption,
    TraversalPath,
    TraverseAnswer,
    WordShare,
)

with needs_extra("serve"):
    from fastapi import APIRouter, Request

router = APIRouter(tags=["insight"])


@router.post(
    "/traverse",
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(TraverseBody),
)
async def traverse(request: Request, runtime: CollectionDep) -> TraverseAnswer:
    """Walk from a text, an image, a mesh or an item to the root; the captions that are met on the way."""
    body = await read_body(request, TraverseBody, runtime.run)
    part = parse_query_part(body, "any", runtime.service.settings.max_text)
    if isinstance(part, VectorQueryPart):
        raise ApiError(
            422, "no_feature", "a vector has no feature to walk from; ask with what it was made of"
        )
    encoded = await runtime.query_encoder.encode(part)
    traversal = await runtime.run(
        lambda: insight.traverse_captions(
            runtime.service, encoded.feature, body.steps, body.widths, body.captions
        )
    )
    encoder, owners = runtime.service.encoder, traversal.owners
    return TraverseAnswer(
        root="origin" if encoder.entails else "mean",
        cones=encoder.entails,
        steps=body.steps,
        paths=tuple(
            TraversalPath(
                path.k,
                tuple(
                    TraversalCaption(one.text, one.position, one.score, owners.get(one.text))
                    for one in path.met
                ),
            )
            for path in traversal.paths
        ),
        bundle=encoder.bundle.name,
        warnings=tuple(encoded.warnings),
    )


@router.post(
    "/explain",
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(ExplainBody),
)
async def explain(request: Request, runtime: CollectionDep) -> ExplainAnswer:
    """Why an item matches a query: the score of each observation, and what in the best one made it."""
    body = await read_body(request, ExplainBody, runtime.run)
    part = parse_query_part(body, "any", runtime.service.settings.max_text)
    encoded = await runtime.query_encoder.encode(part)
    item = await runtime.run(lambda: runtime.service.collection.get(body.item))
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {body.item!r}")
    return await runtime.run(lambda: _explain(runtime, body, part, encoded, item))


def _explain(
    runtime: CollectionRuntime, body: ExplainBody, part: QueryPart, encoded: EncodedPart, item: Item
) -> ExplainAnswer:
    encoder = runtime.service.encoder
    scores = insight.score_features(encoder, encoded.vector, [one.feature for one in item.observations])
    ranked = sorted(zip(scores, item.observations, strict=True), key=lambda pair: -pair[0])
    score, observation = _choose_observation(body, ranked)
    item_evidence, query_evidence = MatchEvidence(), MatchEvidence()
    if body.maps:
        pixels = runtime.service.observer.look(part.data) if isinstance(part, ImageQueryPart) else None
        text = part.text if isinstance(part, TextQueryPart) else None
        query = ExplanationQuery(encoded.vector, pixels, text)
        item_evidence, query_evidence = insight.explain_match(
            runtime.service, query, observation, body.method, body.token
        )

    def scored(value: float, one: Observation) -> ScoredObservation:
        info = serialization.serialize_observation(item.id, one, runtime.address)
        return ScoredObservation(info.kind, info.index, info.url, info.text, score=value)

    explanation = _serialize(runtime, item_evidence)
    return ExplainAnswer(
        item=item.id,
        sides=insight.score_sides(encoder, encoded.vector, item),
        observations=tuple(scored(*pair) for pair in ranked),
        explained=ObservationExplanation(
            explanation.heat_map,
            explanation.words,
            observation=scored(score, observation),
            tokens=tuple(insight.token_shares(encoder, encoded.vector, observation.feature)),
        ),
        query=_serialize(runtime, query_evidence),
        bundle=encoder.bundle.name,
        warnings=tuple(encoded.warnings),
    )


def _choose_observation(
    body: ExplainBody, ranked: list[tuple[float, Observation]]
) -> tuple[float, Observation]:
    """The best of the observations that the body names, with its score."""
    if body.index is not None and body.kind is None:
        raise ApiError(422, "bad_request", "'index' needs 'kind': the first caption, the first view, …")
    for score, one in ranked:
        if body.kind in (None, one.kind) and body.index in (None, one.index):
            return score, one
    name = f"{body.kind} {'' if body.index is None else body.index}".strip()
    raise ApiError(404, "not_found", f"the item {body.item!r} has no {name}")


def _serialize(runtime: CollectionRuntime, evidence: MatchEvidence) -> MatchExplanation:
    heat_map = words = None
    if evidence.heat_map is not None:
        grid = tuple(tuple(round(share, 6) for share in row) for row in evidence.heat_map.grid.tolist())
        cut = runtime.service.encoder.bundle.image.resize == "shortest"
        heat_map = PictureShares(evidence.heat_map.method, grid, cut)
    if evidence.words is not None:
        shares = tuple(WordShare(word, round(share, 6)) for word, share in evidence.words.words)
        words = TextShares(evidence.words.method, shares)
    return MatchExplanation(heat_map, words)
