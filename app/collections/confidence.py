"""The confidence of hits: the bundle's calibration, or a model fitted on the collection's own items.

Where the bundle has no calibration, pairs that belong together are taken from the items: captions and names
with photos and shapes, photos with shapes. A curve is fitted on them as on held-out pairs. Where too few
items have two sides, the bundle's probes ask, which nothing here belongs to. Then only a chance level is
known: how rarely an unrelated pair scores as high. That is no probability of being the right item."""

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
from index.search.search import Calibration, Values
from multifold.bundle import calibration
from multifold.bundle.calibration import CalibrationCurve, CalibrationError, pair_name
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.scores import similarities
from multifold.types import (
    SIDE_OF,
    SIDES,
    ConfidenceBasis,
    Feature,
    Features,
    Hit,
    Item,
    Pooling,
    Side,
    pool_mean,
)

FEWEST_ITEMS, MOST_ITEMS = 30, 300  # items that have both sides
SPREAD_LIMIT = 50_000  # items that can be spread over by their ids
AT_ONCE = 100
POOLS: tuple[Pooling, ...] = ("mean", "max")
log = logging.getLogger("multifold.app")


@dataclass(frozen=True)
class ConfidenceModel:
    """What is known of scores: curves by pair, or what chance reaches; by what, and from how many items."""

    by: ConfidenceBasis | None = None
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    chance: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # sorted scores of strangers
    items: int = 0

    def unlikely(self, asked: Side | None, pool: Pooling, hit: Hit) -> float | None:
        """The share of pairs that do not belong together and score as high; None where a curve says more."""
        scores = None if asked is None else self.chance.get(calibration.pair_name(asked, hit.side, pool))
        if not scores:
            return None
        return (len(scores) - bisect_left(scores, hit.score) + 1) / (len(scores) + 1)


class ConfidenceFitter:
    """The sureness of a collection; fitted anew, beside its work, whenever it has become twice as large."""

    def __init__(self, observer: ObservationEncoder, collection: Collection) -> None:
        self._observer, self._collection = observer, collection
        self._fitting = threading.Lock()
        self._due = 0
        self._fitted = ConfidenceModel()

    def now(self) -> ConfidenceModel:
        """What is known now."""
        curves = self._observer.encoder.curves  # of the bundle as it was read last
        if curves:
            return ConfidenceModel("bundle", curves)
        if self._collection.version >= self._due:
            threading.Thread(target=self.fit, daemon=True).start()
        return self._fitted

    def fit(self) -> None:
        """Fit, unless somebody is at it."""
        if self._observer.encoder.curves or not self._fitting.acquire(blocking=False):
            return
        try:
            self._due = 2 * self._collection.version + FEWEST_ITEMS
            self._fitted = fit_confidence(self._observer.encoder, sample_items(self._collection))
        except MultifoldError:
            log.exception("no confidence can be fitted")  # such as: closed meanwhile
        finally:
            self._fitting.release()


def sample_items(collection: Collection) -> list[Item]:
    """Items from all over a collection; from its beginning, where that would take long."""
    if collection.count() > SPREAD_LIMIT:
        return collection.scroll(limit=MOST_ITEMS)
    ids = collection.ids()
    chosen = (
        [ids[place] for place in np.linspace(0, len(ids) - 1, min(MOST_ITEMS, len(ids))).astype(int)]
        if ids
        else []
    )
    found = [collection.get(name) for name in chosen]
    return [item for item in found if item is not None]


def fit_confidence(encoder: Encoder, items: Sequence[Item]) -> ConfidenceModel:
    """Curves where items have two sides; else what chance reaches."""
    curves: dict[str, CalibrationCurve] = {}
    for asked, target, pool in product(SIDES, SIDES, POOLS):
        both = [item for item in items if _features(item, asked) and _features(item, target)]
        if asked != target and len(both) >= FEWEST_ITEMS:
            try:
                curves[calibration.pair_name(asked, target, pool)] = _curve(
                    encoder, both, asked, target, pool
                )
            except CalibrationError as error:
                log.info("no curve for %s to %s: %s", asked, target, error)
    if curves:
        return ConfidenceModel("collection", curves, items=len(items))
    chance = dict(_chance(encoder, items))
    return (
        ConfidenceModel("chance", chance=chance, items=len(items))
        if chance
        else ConfidenceModel(items=len(items))
    )


def _curve(
    encoder: Encoder, items: Sequence[Item], asked: Side, target: Side, pool: Pooling
) -> CalibrationCurve:
    queries = [one for item in items for one in _queries(item, asked)]
    owners = np.repeat(np.arange(len(items)), [len(_queries(item, asked)) for item in items])
    scores = _scores(encoder, np.stack(queries), items, target, pool)
    return calibration.fit(scores, _belongs(items, owners, asked, target), len(items))


def _chance(encoder: Encoder, items: Sequence[Item]) -> Iterator[tuple[str, tuple[float, ...]]]:
    for asked, queries in encoder.bundle.probes().items():
        for target, pool in product(SIDES, POOLS):
            there = [item for item in items if _features(item, target)]
            if len(there) >= FEWEST_ITEMS and len(queries):
                scores = _scores(encoder, queries, there, target, pool)
                yield calibration.pair_name(asked, target, pool), tuple(np.sort(scores.ravel()).tolist())


def _scores(
    encoder: Encoder, queries: Features, items: Sequence[Item], target: Side, pool: Pooling
) -> Float32[np.ndarray, "q i"]:
    """What each query scores with each item, as the index has it."""
    asked = encoder.vectors(queries)
    seen = [_features(item, target) for item in items]
    if pool == "mean":
        pooled = np.stack([pool_mean(np.stack(one)) for one in seen])
        return similarities(encoder, asked, encoder.vectors(pooled))
    each = encoder.vectors(np.stack([one for some in seen for one in some]))
    starts = np.cumsum([0, *(len(some) for some in seen[:-1])])
    best: Float32[np.ndarray, "q i"] = np.maximum.reduceat(similarities(encoder, asked, each), starts, axis=1)
    return best


def _belongs(
    items: Sequence[Item], owners: Int64[np.ndarray, " q"], asked: Side, target: Side
) -> Bool[np.ndarray, "q i"]:
    """An item's own, and where texts ask or answer, those of whom the very same is said."""
    own: Bool[np.ndarray, "q i"] = owners[:, None] == np.arange(len(items))[None, :]
    if "text" not in (asked, target):
        return own
    said = [[_normalised(one.text) for one in item.observations if one.text is not None] for item in items]
    held = [set(texts) for texts in said]
    asking = (
        [{text} for texts in said for text in texts] if asked == "text" else [held[one] for one in owners]
    )
    same: Bool[np.ndarray, "q i"] = own | np.array([[bool(one & other) for other in held] for one in asking])
    return same


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()


def _queries(item: Item, side: Side) -> Sequence[Feature]:
    """Queries of a side: single texts and photos; the views of a shape as one."""
    seen = _features(item, side)
    return [pool_mean(np.stack(seen))] if side == "shape" else seen


def _features(item: Item, side: Side) -> list[Feature]:
    return [one.feature for one in item.observations if SIDE_OF[one.kind] == side]


def calibration_of(
    curves: Mapping[str, CalibrationCurve], asked: Side | None, pool: Pooling
) -> Calibration | None:
    """What the index asks for the confidence of scores; None if no side is calibrated for this."""
    if asked is None:
        return None
    mine = {side: curves[pair] for side in SIDES if (pair := pair_name(asked, side, pool)) in curves}
    if not mine:
        return None

    def told(side: Side, scores: Values, gallery: int) -> Values | None:
        curve = mine.get(side)
        return None if curve is None else curve.confidence(scores, gallery)

    return told
