"""POST /v1/traverse and /v1/explain: towards the general, and why something matched."""

from typing import Annotated

from app import insight, shown
from app.bodies import described, json_body
from app.errors import ApiError
from app.insight import Asked, Why
from app.offload import Desk, desk
from app.parsing import clue_of
from app.questions import Clue, Given, Picture, Text
from app.routes.refusals import refusals
from app.schemas.insight import (
    ExplainAnswer,
    ExplainBody,
    Explained,
    ExplainedObservation,
    MapShown,
    MetCaption,
    PathShown,
    Scored,
    TraverseAnswer,
    TraverseBody,
    WordShown,
    WordsShown,
)
from app.senses import Sensed
from multifold.errors import needs_extra
from multifold.types import Item, Observation

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(prefix="/v1", tags=["insight"])
At = Annotated[Desk, Depends(desk)]


@router.post(
    "/traverse", responses=refusals(404, 413, 415, 422, 429, 503), openapi_extra=described(TraverseBody)
)
async def traverse(request: Request, at: At) -> TraverseAnswer:
    """Walk from a text, an image, a mesh or an item to the root; the captions that are met on the way."""
    body = await json_body(request, at, TraverseBody)
    clue = clue_of(body, "any", at.service.settings.max_text)
    if isinstance(clue, Given):
        raise ApiError(
            422, "no_feature", "a vector has no feature to walk from; ask with what it was made of"
        )
    sensed = await clue.sense(at.senses)
    walked = await at.run(
        lambda: insight.walk(at.service, sensed.feature, body.steps, body.widths, body.captions)
    )
    encoder = at.service.encoder
    paths = [
        PathShown(
            k=path.k,
            met=[
                MetCaption(
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
    "/explain", responses=refusals(404, 413, 415, 422, 429, 503), openapi_extra=described(ExplainBody)
)
async def explain(request: Request, at: At) -> ExplainAnswer:
    """Why an item matches a query: the score of each observation, and what in the best one made it."""
    body = await json_body(request, at, ExplainBody)
    clue = clue_of(body, "any", at.service.settings.max_text)
    sensed = await clue.sense(at.senses)
    item = await at.run(lambda: at.service.collection.get(body.item))
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {body.item!r}")
    return await at.run(lambda: _explained(at, body, clue, sensed, item))


def _explained(at: Desk, body: ExplainBody, clue: Clue, sensed: Sensed, item: Item) -> ExplainAnswer:
    encoder = at.service.encoder
    found = insight.scores(encoder, sensed.vector, [one.feature for one in item.observations])
    ranked = sorted(zip(found, item.observations, strict=True), key=lambda pair: -pair[0])
    score, chosen = _chosen(body, ranked)
    ours, theirs = Why(), Why()
    if body.maps:
        seen = at.service.observer.look(clue.data) if isinstance(clue, Picture) else None
        asked = Asked(sensed.vector, seen, clue.text if isinstance(clue, Text) else None)
        ours, theirs = insight.explain(at.service, asked, chosen, body.method, body.token)

    def scored(value: float, one: Observation) -> Scored:
        return Scored(**shown.seen(item.id, one, at.address).model_dump(), score=value)

    return ExplainAnswer(
        item=item.id,
        sides=insight.side_scores(encoder, sensed.vector, item),
        observations=[scored(*pair) for pair in ranked],
        explained=ExplainedObservation(
            observation=scored(score, chosen),
            tokens=insight.tokens(encoder, sensed.vector, chosen.feature),
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


def _shown(at: Desk, why: Why) -> Explained:
    heat_map = words = None
    if why.heat_map is not None:
        grid = [[round(share, 6) for share in row] for row in why.heat_map.grid.tolist()]
        cut = at.service.encoder.bundle.image.resize == "shortest"
        heat_map = MapShown(method=why.heat_map.method, grid=grid, cut=cut)
    if why.words is not None:
        told = [WordShown(text=word, share=round(share, 6)) for word, share in why.words.words]
        words = WordsShown(method=why.words.method, words=told)
    return Explained(heat_map=heat_map, words=words)
