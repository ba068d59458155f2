"""The confidence of hits: the bundle's calibration, or a model fitted on the collection's own items.

Where the bundle has no calibration, pairs that belong together are taken from the items: captions and names
with photos and shapes, photos with shapes. A curve is fitted on them as on held-out pairs. Where too few
items have two sides, the bundle's probes are the queries, to which no item belongs. Then only a chance level
is known: how rarely an unrelated pair scores as high. That is no probability of being the right item."""

import logging
import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from jaxtyping import Bool, Float32, Int64

from app.encoding.observations import ObservationEncoder
from index.collection import Collection
from index.search.side_rankings import Calibration, Values
from multifold.bundle import calibration
from multifold.bundle.calibration import CalibrationCurve, CalibrationError, pair_name
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.scores import similarities
from multifold.types import (
    SIDES,
    ConfidenceBasis,
    Feature,
    Features,
    Hit,
    Item,
    Pooling,
    Side,
    features_of,
    pool_mean,
)

FEWEST_ITEMS, MOST_ITEMS = 30, 300  # items that have both sides
SPREAD_LIMIT = 50_000  # the largest collection that is sampled evenly, by the list of its ids
POOLS: tuple[Pooling, ...] = ("mean", "max")
log = logging.getLogger("multifold.app")


@dataclass(frozen=True)
class ConfidenceModel:
    """Calibration curves by pair, or the scores of unrelated pairs; and what they rest on."""

    basis: ConfidenceBasis | None = None
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    unrelated: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # sorted scores of such pairs
    items: int = 0

    def chance(self, query_side: Side | None, pool: Pooling, hit: Hit) -> float | None:
        """The share of unrelated pairs that score as high; None where a curve or evidence says more."""
        if query_side is None or hit.evidence:
            return None
        scores = self.unrelated.get(pair_name(query_side, hit.side, pool))
        if not scores:
            return None
        return (len(scores) - bisect_left(scores, hit.score) + 1) / (len(scores) + 1)


UNCALIBRATED = ConfidenceModel()


class ConfidenceFitter:
    """The confidence model of a collection, fitted in the background whenever the collection has doubled."""

    def __init__(self, observer: ObservationEncoder, collection: Collection) -> None:
        self._observer, self._collection = observer, collection
        self._fitting = threading.Lock()
        self._next_version = 0  # of the collection, at which the model is fitted again
        self._fitted = ConfidenceModel()

    def now(self) -> ConfidenceModel:
        """The present model."""
        curves = self._observer.encoder.curves  # of the bundle as it was read last
        if curves:
            return ConfidenceModel("bundle", curves)
        if self._collection.version >= self._next_version:
            threading.Thread(target=self.fit, daemon=True).start()
        return self._fitted

    def fit(self) -> None:
        """Fit the model, unless another thread does."""
        if self._observer.encoder.curves or not self._fitting.acquire(blocking=False):
            return
        try:
            self._next_version = 2 * self._collection.version + FEWEST_ITEMS
            self._fitted = fit_confidence(self._observer.encoder, sample_items(self._collection))
        except MultifoldError as error:
            log.warning("no confidence can be fitted: %s", error)  # such as: closed meanwhile
        finally:
            self._fitting.release()


def sample_items(collection: Collection) -> list[Item]:
    """Items spread evenly over a collection; of a very large one, its first."""
    if collection.count() > SPREAD_LIMIT:
        return collection.scroll(limit=MOST_ITEMS)
    ids = collection.ids()
    places = np.linspace(0, len(ids) - 1, min(MOST_ITEMS, len(ids))).astype(int)
    return [item for place in places if (item := collection.get(ids[place])) is not None]


def fit_confidence(encoder: Encoder, items: Sequence[Item]) -> ConfidenceModel:
    """Curves where enough items have two sides; else the scores of unrelated pairs."""
    curves: dict[str, CalibrationCurve] = {}
    for query_side, target, pool in product(SIDES, SIDES, POOLS):
        both = [item for item in items if _features(item, query_side) and _features(item, target)]
        if query_side != target and len(both) >= FEWEST_ITEMS:
            try:
                curve = _fit_curve(encoder, both, query_side, target, pool)
                curves[pair_name(query_side, target, pool)] = curve
            except CalibrationError as error:
                log.info("no curve for %s to %s: %s", query_side, target, error)
    if curves:
        return ConfidenceModel("collection", curves, items=len(items))
    unrelated = dict(_unrelated_scores(encoder, items))
    return ConfidenceModel("chance" if unrelated else None, unrelated=unrelated, items=len(items))


def _fit_curve(
    encoder: Encoder, items: Sequence[Item], query_side: Side, target: Side, pool: Pooling
) -> CalibrationCurve:
    queries = [_queries(item, query_side) for item in items]
    owners = np.repeat(np.arange(len(items)), [len(features) for features in queries])
    scores = _scores(encoder, np.concatenate(queries), items, target, pool)
    return calibration.fit(scores, _matches(items, owners, query_side, target), len(items))


def _unrelated_scores(encoder: Encoder, items: Sequence[Item]) -> Iterator[tuple[str, tuple[float, ...]]]:
    for query_side, queries in encoder.bundle.probes().items():
        for target, pool in product(SIDES, POOLS):
            targets = [item for item in items if _features(item, target)]
            if len(targets) >= FEWEST_ITEMS and len(queries):
                scores = _scores(encoder, queries, targets, target, pool)
                yield pair_name(query_side, target, pool), tuple(np.sort(scores.ravel()).tolist())


def _scores(
    encoder: Encoder, queries: Features, items: Sequence[Item], target: Side, pool: Pooling
) -> Float32[np.ndarray, "q i"]:
    """The score of each query with each item, as the index has it."""
    vectors = encoder.vectors(queries)
    features = [_features(item, target) for item in items]
    if pool == "mean":
        pooled = np.stack([pool_mean(np.stack(of_item)) for of_item in features])
        return similarities(encoder, vectors, encoder.vectors(pooled))
    each = encoder.vectors(np.concatenate(features))
    starts = np.cumsum([0, *(len(of_item) for of_item in features[:-1])])
    scores = similarities(encoder, vectors, each)
    best: Float32[np.ndarray, "q i"] = np.maximum.reduceat(scores, starts, axis=1)
    return best


def _matches(
    items: Sequence[Item], owners: Int64[np.ndarray, " q"], query_side: Side, target: Side
) -> Bool[np.ndarray, "q i"]:
    """Which items a query belongs to: its own, and for texts on either side those with the same caption."""
    own: Bool[np.ndarray, "q i"] = owners[:, None] == np.arange(len(items))[None, :]
    if "text" not in (query_side, target):
        return own
    captions = [
        [" ".join(one.text.split()).casefold() for one in item.observations if one.text is not None]
        for item in items
    ]
    of_items = [set(texts) for texts in captions]
    of_queries = (
        [{text} for texts in captions for text in texts]
        if query_side == "text"
        else [of_items[owner] for owner in owners]
    )
    same: Bool[np.ndarray, "q i"] = own | np.array(
        [[not texts.isdisjoint(others) for others in of_items] for texts in of_queries]
    )
    return same


def _queries(item: Item, side: Side) -> Sequence[Feature]:
    """Queries of a side: single texts and photos; the views of a shape as one."""
    features = _features(item, side)
    return [pool_mean(np.stack(features))] if side == "shape" else features


def _features(item: Item, side: Side) -> list[Feature]:
    return features_of(item.observations, side)


def calibration_of(
    curves: Mapping[str, CalibrationCurve], query_side: Side | None, pool: Pooling
) -> Calibration | None:
    """The calibration of an index query; None if no side is calibrated for it."""
    if query_side is None:
        return None
    by_side = {side: curves[pair] for side in SIDES if (pair := pair_name(query_side, side, pool)) in curves}

    def confidence(side: Side, scores: Values, gallery: int) -> Values | None:
        curve = by_side.get(side)
        return None if curve is None else curve.confidence(scores, gallery)

    return confidence if by_side else None
