"""POST /v1/traverse and /v1/explain: captions on the way to the root, and why an item matches."""

from typing import Annotated

from app.errors import ApiError
from app.http import serialization
from app.http.bodies import describe_body, json_body
from app.http.openapi import error_responses
from app.http.parsing import parse_query_part
from app.http.schemas.insight import (
    ExplainAnswer,
    ExplainBody,
    ExplanationResource,
    HeatMapResource,
    ObservationExplanation,
    PathCaptionResource,
    PathResource,
    ScoredObservation,
    TraverseAnswer,
    TraverseBody,
    WordShareResource,
    WordSharesResource,
)
from app.runtime.runtime import CollectionRuntime, collection_runtime
from app.search import insight
from app.search.insight import ExplanationQuery, MatchEvidence
from app.search.query import EncodedPart, ImageQueryPart, QueryPart, TextQueryPart, VectorQueryPart
from multifold.errors import needs_extra
from multifold.types import Item, Observation

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(tags=["insight"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]


@router.post(
    "/traverse",
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(TraverseBody),
)
async def traverse(request: Request, at: At) -> TraverseAnswer:
    """Walk from a text, an image, a mesh or an item to the root; the captions that are met on the way."""
    body = await json_body(request, at, TraverseBody)
    clue = parse_query_part(body, "any", at.service.settings.max_text)
    if isinstance(clue, VectorQueryPart):
        raise ApiError(
            422, "no_feature", "a vector has no feature to walk from; ask with what it was made of"
        )
    sensed = await clue.sense(at.senses)
    walked = await at.run(
        lambda: insight.traverse_captions(at.service, sensed.feature, body.steps, body.widths, body.captions)
    )
    encoder = at.service.encoder
    paths = [
        PathResource(
            k=path.k,
            met=[
                PathCaptionResource(
                    text=one.text, position=one.position, score=one.score, id=walked.owners.get(one.text)
                )
                for one in path.met
            ],
        )
        for path in walked.paths
    ]
    return TraverseAnswer(
        root="origin" if encoder.entails else "mean",
        cones=encoder.entails,
        steps=body.steps,
        paths=paths,
        bundle=encoder.bundle.name,
        warnings=list(sensed.warnings),
    )


@router.post(
    "/explain",
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(ExplainBody),
)
async def explain(request: Request, at: At) -> ExplainAnswer:
    """Why an item matches a query: the score of each observation, and what in the best one made it."""
    body = await json_body(request, at, ExplainBody)
    clue = parse_query_part(body, "any", at.service.settings.max_text)
    sensed = await clue.sense(at.senses)
    item = await at.run(lambda: at.service.collection.get(body.item))
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {body.item!r}")
    return await at.run(lambda: _explained(at, body, clue, sensed, item))


def _explained(
    at: CollectionRuntime, body: ExplainBody, clue: QueryPart, sensed: EncodedPart, item: Item
) -> ExplainAnswer:
    encoder = at.service.encoder
    found = insight.score_features(encoder, sensed.vector, [one.feature for one in item.observations])
    ranked = sorted(zip(found, item.observations, strict=True), key=lambda pair: -pair[0])
    score, chosen = _chosen(body, ranked)
    ours, theirs = MatchEvidence(), MatchEvidence()
    if body.maps:
        seen = at.service.observer.look(clue.data) if isinstance(clue, ImageQueryPart) else None
        asked = ExplanationQuery(sensed.vector, seen, clue.text if isinstance(clue, TextQueryPart) else None)
        ours, theirs = insight.explain_match(at.service, asked, chosen, body.method, body.token)

    def scored(value: float, one: Observation) -> ScoredObservation:
        return ScoredObservation(
            **serialization.serialize_observation(item.id, one, at.address).model_dump(), score=value
        )

    return ExplainAnswer(
        item=item.id,
        sides=insight.score_sides(encoder, sensed.vector, item),
        observations=[scored(*pair) for pair in ranked],
        explained=ObservationExplanation(
            observation=scored(score, chosen),
            tokens=insight.token_shares(encoder, sensed.vector, chosen.feature),
            **_shown(at, ours).model_dump(),
        ),
        query=_shown(at, theirs),
        bundle=encoder.bundle.name,
        warnings=list(sensed.warnings),
    )


def _chosen(body: ExplainBody, ranked: list[tuple[float, Observation]]) -> tuple[float, Observation]:
    """The best observation of those that were meant."""
    if body.index is not None and body.kind is None:
        raise ApiError(422, "bad_request", "'index' needs 'kind': the first caption, the first view, …")
    for score, one in ranked:
        if body.kind in (None, one.kind) and body.index in (None, one.index):
            return score, one
    name = f"{body.kind} {'' if body.index is None else body.index}".strip()
    raise ApiError(404, "not_found", f"the item {body.item!r} has no {name}")


def _shown(at: CollectionRuntime, why: MatchEvidence) -> ExplanationResource:
    heat_map = words = None
    if why.heat_map is not None:
        grid = [[round(share, 6) for share in row] for row in why.heat_map.grid.tolist()]
        cut = at.service.encoder.bundle.image.resize == "shortest"
        heat_map = HeatMapResource(method=why.heat_map.method, grid=grid, cut=cut)
    if why.words is not None:
        told = [WordShareResource(text=word, share=round(share, 6)) for word, share in why.words.words]
        words = WordSharesResource(method=why.words.method, words=told)
    return ExplanationResource(heat_map=heat_map, words=words)
