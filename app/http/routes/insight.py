"""Captions on the way to the root, and why an item matches."""

from functools import partial

from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.dependencies import AddressDep, CollectionDep
from app.http.openapi import body_errors
from app.http.routers import collection_router
from app.http.routes.items import item_address, serialize_observation
from app.queries.parts import VectorQueryPart, read_part
from app.search import insight
from app.search.insight import ExplainedSurface, MatchEvidence, Scored
from multifold.analysis.explanation import HeatMap
from multifold.analysis.traversal import PathCaption
from multifold.wire import insight as wire

router = collection_router(tags=["insight"])


@router.post("/traverse", responses=body_errors(404))
async def traverse(service: CollectionDep, body: wire.TraverseBody) -> wire.TraverseAnswer:
    """Walk from a text, an image, a mesh or an item to the root; the captions that are met on the way."""
    part = read_part(body, "any", service.settings.max_text)
    if isinstance(part, VectorQueryPart):
        sentence = "a vector has no feature to walk from; ask with what it was made of"
        raise ApiError(422, "no_feature", sentence)
    encoded = await service.encode(part)
    walk = partial(insight.traverse_captions, service, encoded.feature)
    paths, owners = await service.run(lambda: walk(body.steps, body.widths, body.captions))
    encoder = service.encoder

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


@router.post("/explain", responses=body_errors(404))
async def explain(service: CollectionDep, address: AddressDep, body: wire.ExplainBody) -> wire.ExplainAnswer:
    """Why an item matches a query: the score of each observation, and what in the best one made it."""
    part = read_part(body, "any", service.settings.max_text)
    encoded = await service.encode(part)
    found = await service.run(
        partial(insight.explain_item, service, part, encoded.vector, body), admitted=True
    )

    home = item_address(address, found.item.id)

    def scored(pair: Scored) -> wire.ScoredObservation:
        info = serialize_observation(pair[1], home)
        return wire.ScoredObservation(info.kind, info.index, info.url, info.text, score=pair[0])

    explanation = _serialize(service, found.evidence)
    return wire.ExplainAnswer(
        item=found.item.id,
        sides=dict(found.sides),
        observations=tuple(map(scored, found.ranked)),
        explained=wire.ObservationExplanation(
            explanation.heat_map,
            explanation.words,
            None if found.surface is None else _serialize_surface(service, found.surface),
            observation=scored(found.explained),
            tokens=tuple(found.tokens),
        ),
        query=_serialize(service, found.query_evidence),
        bundle=service.encoder.bundle.name,
        warnings=(*encoded.warnings, *found.notes),
    )


def _serialize(service: CollectionService, evidence: MatchEvidence) -> wire.MatchExplanation:
    heat_map = words = None
    if evidence[0] is not None:
        heat_map = _serialize_map(service, evidence[0])
    if evidence[1] is not None:
        shares = tuple(wire.WordShare(word, round(share, 6)) for word, share in evidence[1].words)
        words = wire.TextShares(evidence[1].method, shares)
    return wire.MatchExplanation(heat_map, words)


def _serialize_map(service: CollectionService, heat: HeatMap) -> wire.PictureShares:
    grid = tuple(tuple(round(share, 6) for share in row) for row in heat.grid.tolist())
    return wire.PictureShares(heat.method, grid, service.encoder.bundle.image.resize == "shortest")


def _serialize_surface(service: CollectionService, found: ExplainedSurface) -> wire.MeshShares:
    shares, maps = found
    regions = zip(shares.shares.tolist(), shares.middles.round(4).tolist(), strict=True)
    return wire.MeshShares(
        maps[0].method,
        tuple(
            wire.RegionShare(middle=(x, y, z), share=round(share, 6))
            for share, (x, y, z) in sorted(regions, reverse=True)
        ),
        tuple(_serialize_map(service, heat) for heat in maps),
    )
