"""The readiness check: a real query gives the known answer now."""

import numpy as np

from app.collections.service import CollectionService
from multifold.bundle import canary
from multifold.errors import MultifoldError
from multifold.scores import similarities
from multifold.types import SIDE_OF, Feature, Item, Query, Side, Vector, pool_mean

QUERY_DEPTH = 10
SCORE_SLACK = 1e-3


class NotReadyError(MultifoldError):
    """Why this service should get no requests."""


def check_readiness(service: CollectionService) -> None:
    """Ask the canaries, then search for an item whose score is known; raise with what went wrong."""
    canary.check(service.encoder)
    for item in service.collection.scroll(limit=1):
        _check_known(service, item)


def _check_known(service: CollectionService, item: Item) -> None:
    """The item is found with its computed score, unless as many others are at least as close."""
    target = SIDE_OF[item.observations[-1].kind]
    query, pooled = (
        service.vector(_query_feature(service, item)),
        service.vector(_pooled_feature(item, target)),
    )
    expected = _score(service, query, pooled)
    hits = service.collection.search(Query(query, target, QUERY_DEPTH))
    slack = SCORE_SLACK * max(1.0, abs(expected))
    itself = any(hit.id == item.id and abs(hit.score - expected) <= slack for hit in hits)
    crowded = len(hits) == QUERY_DEPTH and all(hit.score >= expected - slack for hit in hits)
    if not (itself or crowded):
        raise NotReadyError(f"the item {item.id!r} is not found where its score of {expected:.4f} puts it")


def _query_feature(service: CollectionService, item: Item) -> Feature:
    """A caption of the item, read anew; the stored feature of an item without words."""
    caption = next((seen.text for seen in item.observations if seen.text is not None), None)
    if caption is None:
        return item.observations[0].feature
    feature: Feature = service.encoder.texts([caption]).features[0]
    return feature


def _pooled_feature(item: Item, side: Side) -> Feature:
    return pool_mean(np.stack([seen.feature for seen in item.observations if SIDE_OF[seen.kind] == side]))


def _score(service: CollectionService, query: Vector, gallery: Vector) -> float:
    return float(similarities(service.encoder, query[None], gallery[None])[0, 0])
