"""Scores candidates that are named: items of the collection, and things that are not in it.

They get the evidence that a search with the target `item` gives, as if they were all that is to be found: the
same legs and weights, standardised by the same strangers of the collection. Where the collection lacks a side
that a candidate has, the candidates stand for its strangers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32

from index.contracts import Space
from index.search.evidence import EvidenceQuery, EvidenceScorer, LegScores, no_sizes
from index.search.evidence_model import LEGS, SideModel, find_rivals
from index.texts.contracts import ItemTexts
from multifold.scores import VectorScorer, similarities
from multifold.types import Leg, Mix, Side, Vector

FEW = 8  # strangers that have a side, below which candidates stand for them


@dataclass(frozen=True, eq=False)
class OutsideThing:
    """A text, a picture or a mesh that no item of the collection is of."""

    side: Side
    vector: Vector
    text: str | None = None
    forms: Mapping[Leg, Vector] = field(default_factory=dict)  # of a mesh, by the legs of shapes

    def vector_of(self, leg: Leg) -> Vector | None:
        """What is compared with a query on one leg; nothing if it lacks that."""
        return self.forms.get(leg, self.vector if self.side == leg else None)

    def texts(self, edition: int) -> ItemTexts:
        """What is written of it."""
        return ItemTexts(edition, "", captions=() if self.text is None else (self.text,))


RerankCandidate: TypeAlias = int | OutsideThing  # an edition, or what is no item


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate by its place among those that were given."""

    place: int
    evidence: float  # in nats
    confidence: float
    legs: dict[Leg, float]  # what each leg adds to the evidence


def rerank(
    scorer: EvidenceScorer,
    space: Space,
    query: EvidenceQuery,
    vector: Vector | Mix,
    model: SideModel,
    candidates: Sequence[RerankCandidate],
) -> list[RankedCandidate]:
    """The candidates, best first; ties stay in their order."""
    outside = [one for one in candidates if isinstance(one, OutsideThing)]
    inside = np.array([one for one in candidates if not isinstance(one, OutsideThing)], np.int64)
    editions = np.union1d(inside, scorer.strangers)
    scores = scorer.scores(query, editions, no_sizes(editions))
    scores = _with_outside(scores, scorer, space, query, vector, outside)
    numbers = iter(range(len(editions), len(editions) + len(outside)))
    rows = np.array(
        [
            next(numbers) if isinstance(one, OutsideThing) else np.searchsorted(editions, one)
            for one in candidates
        ]
    )
    strangers = np.isin(np.arange(len(scores.editions)), np.flatnonzero(np.isin(editions, scorer.strangers)))
    table = scores.table(comparable(scores, strangers, rows))
    ratios = table.by_leg(model)[rows]
    evidence = ratios.sum(axis=1)
    rivals = find_rivals(evidence, len(rows), table.length, table.strange)
    chances = model.chances(evidence, table.whole[rows], rivals)
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


def comparable(
    scores: LegScores, strangers: Bool[np.ndarray, " n"], rows: np.ndarray
) -> Bool[np.ndarray, " n"]:
    """By which rows scores are standardised: the strangers, with the candidates where one has a rare side."""
    for values in scores.scores.values():
        there = ~np.isnan(values)
        if there[rows].any() and there[strangers].sum() < FEW:
            both = strangers.copy()
            both[rows] = True
            return both
    return strangers


def _with_outside(
    scores: LegScores,
    scorer: EvidenceScorer,
    space: Space,
    query: EvidenceQuery,
    vector: Vector | Mix,
    outside: Sequence[OutsideThing],
) -> LegScores:
    """The scores with those of things that are no items behind them."""
    if not outside:
        return scores
    first = int(scores.editions[-1]) + 1 if len(scores.editions) else 0
    editions = np.concatenate([scores.editions, np.arange(first, first + len(outside))])
    legs: dict[Leg, Float32[np.ndarray, " n"]] = {}
    texts = [one.texts(place) for place, one in enumerate(outside)]
    coverage = np.zeros(len(outside), np.float32)
    for leg, values in scores.scores.items():
        new = score_outside(space, vector, outside, leg)
        if leg == "words" and scorer.words is not None and query.text is not None:
            new, coverage = scorer.words.weigh_texts(query.text, texts)
        elif leg == "reader" and scorer.reader is not None and query.text is not None:
            read = scorer.reader.scores_of(query.text, texts)
            new = np.where(read == 0, np.nan, read)
        legs[leg] = np.concatenate([values, new.astype(np.float32)])
    return replace(
        scores, editions=editions, scores=legs, coverage=np.concatenate([scores.coverage, coverage])
    )


def score_outside(
    space: Space, vector: Vector | Mix, outside: Sequence[OutsideThing], leg: Leg
) -> Float32[np.ndarray, " n"]:
    """What a search would say, on one leg, of things that are not in the index; NaN where they lack it."""
    scores = np.full(len(outside), np.nan, np.float32)
    every = [one.vector_of(leg) for one in outside]
    there = [place for place, one in enumerate(every) if one is not None]
    if not there:
        return scores
    assert isinstance(space, VectorScorer)
    vectors = np.stack([one for one in every if one is not None])
    scores[there] = 0.0
    for part, weight in vector.parts if isinstance(vector, Mix) else ((vector, 1.0),):
        scores[there] += np.float32(weight) * similarities(space, part[None], vectors)[0]
    return scores
