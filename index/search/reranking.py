"""Scores candidates that are named: items of the collection, and things that are not in it.

They get the evidence that a search gives, as if they were all that is to be found: the same legs and weights,
standardised by the same background of the collection. Where the collection lacks a side that a candidate has,
the candidates stand for its background.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids
from index.legs.contracts import Asked, Raw, Thing
from index.legs.table import LEGS
from index.legs.vectors import SCORE
from index.search.candidates import legs_of
from index.search.confidence import confidences
from index.search.model import SideModel
from index.search.scores import find_bare, score_editions, weigh
from index.texts.contracts import ItemTexts
from multifold.types import Aspect, Leg, Side, Vector

SAMPLE_ITEMS = 8  # items of the background that have a side, below which candidates stand for them


@dataclass(frozen=True, eq=False)
class OutsideThing:
    """A text, a picture or a mesh that no item of the collection is of."""

    side: Side
    vector: Vector
    text: str | None = None
    forms: Mapping[Aspect, Vector] = field(default_factory=dict)  # of a mesh, by the legs of shapes

    def thing(self, place: int) -> Thing:
        """What legs score of it."""
        texts = ItemTexts(place, "", captions=(self.text,)) if self.text is not None else None
        return Thing({self.side: self.vector, **self.forms}, texts)


RerankCandidate: TypeAlias = int | OutsideThing  # an edition, or what is no item


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate by its place among those that were given."""

    place: int
    evidence: float  # in nats
    confidence: float
    legs: dict[Leg, float]  # what each leg adds to the evidence


def rerank(asked: Asked, model: SideModel, candidates: Sequence[RerankCandidate]) -> list[RankedCandidate]:
    """The candidates, best first; ties stay in their order."""
    inside = np.array([one for one in candidates if not isinstance(one, OutsideThing)], np.int64)
    outside = [one.thing(place) for place, one in enumerate(candidates) if isinstance(one, OutsideThing)]
    legs = legs_of(asked)
    within = score_editions(asked, np.unique(inside), legs)
    editions, raw = with_things(
        within.editions, within.raw, {leg.name: leg.scores_of(outside) for leg in legs}
    )
    numbers = iter(range(len(within.editions), len(editions)))
    rows = np.array(
        [
            next(numbers) if isinstance(one, OutsideThing) else np.searchsorted(within.editions, one)
            for one in candidates
        ],
        np.int64,
    )
    background = np.append(within.background, np.zeros(len(outside), np.bool_))
    bare = find_bare(asked, editions, raw)
    scores = weigh(asked, editions, raw, comparable(raw, background, rows), legs, bare)
    ratios = scores.ratios(model)[rows]
    evidence = ratios.sum(axis=1)
    rivals = scores.rivals(evidence, len(rows))
    chances = confidences(model.confidence, evidence, scores.stated[rows], scores.bare[rows], rivals)
    order = np.argsort(-evidence, kind="stable").tolist()
    chances[order] = np.minimum.accumulate(chances[order])
    return [
        RankedCandidate(
            place,
            float(evidence[place]),
            float(chances[place]),
            {leg: float(ratios[place, k]) for k, leg in enumerate(LEGS) if ratios[place, k]},
        )
        for place in order
    ]


def with_things(
    editions: Ids, raw: Mapping[Leg, Raw], things: Mapping[Leg, Raw]
) -> tuple[Ids, dict[Leg, Raw]]:
    """Scores of editions, and behind them those of things that are no items, with numbers of their own."""
    count = max((len(one) for one in things.values()), default=0)
    first = int(editions[-1]) + 1 if len(editions) else 0
    joined = {leg: np.concatenate([scores, things[leg]]) for leg, scores in raw.items()}
    return np.concatenate([editions, np.arange(first, first + count)]), joined


def comparable(
    raw: Mapping[Leg, Raw], background: Bool[np.ndarray, " n"], rows: Ids
) -> Bool[np.ndarray, " n"]:
    """By which rows scores are standardised: the background, and the candidates if one has a rare side."""
    for values in raw.values():
        there = ~np.isnan(values[:, SCORE])
        if there[rows].any() and there[background].sum() < SAMPLE_ITEMS:
            both = background.copy()
            both[rows] = True
            return both
    return background
