"""The readiness check: a search whose answer is known."""

import numpy as np

from app.collections.collections import CollectionService
from multifold.bundle import canary
from multifold.errors import MultifoldError
from multifold.scores import similarities
from multifold.types import SIDE_OF, Feature, Item, Query, pool_mean

QUERY_DEPTH = 10
SCORE_SLACK = 1e-3


class NotReadyError(MultifoldError):
    """The service should get no requests; says why."""


def check_readiness(service: CollectionService) -> None:
    """Check the canaries, then search for an item whose score is known; raise what went wrong."""
    canary.check(service.encoder)
    for item in service.collection.scroll(limit=1):
        _check_known(service, item)


def _check_known(service: CollectionService, item: Item) -> None:
    """The item is found with its computed score, unless as many others are at least as close."""
    target = SIDE_OF[item.observations[-1].kind]
    features = [one.feature for one in item.observations if SIDE_OF[one.kind] == target]
    query, pooled = service.encoder.vectors(
        np.stack([_query_feature(service, item), pool_mean(np.stack(features))])
    )
    expected = float(similarities(service.encoder, query[None], pooled[None])[0, 0])
    hits = service.collection.search(Query(query, target, QUERY_DEPTH))
    slack = SCORE_SLACK * max(1.0, abs(expected))
    itself = any(hit.id == item.id and abs(hit.score - expected) <= slack for hit in hits)
    crowded = len(hits) == QUERY_DEPTH and all(hit.score >= expected - slack for hit in hits)
    if not (itself or crowded):
        raise NotReadyError(f"the item {item.id!r} is not found where its score of {expected:.4f} puts it")


def _query_feature(service: CollectionService, item: Item) -> Feature:
    """A caption of the item, encoded again; the stored feature of an item without captions."""
    caption = next((one.text for one in item.observations if one.text is not None), None)
    if caption is None:
        return item.observations[0].feature
    feature: Feature = service.encoder.texts([caption]).features[0]
    return feature
