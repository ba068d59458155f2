"""The ranking of the shape side where points are known of shapes beside their views.

What a query says of a shape is the evidence of its legs alone: its views and its points. It is added up as
that of the whole item is (see evidence.py), with weights of its own, which are fitted for questions that only
shapes answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids
from index.search.engine_set import Candidates, EngineSet
from index.search.evidence import RING, EvidenceQuery, EvidenceScorer, no_sizes
from index.search.evidence_model import (
    LEGS,
    SHAPE_LEGS,
    Rivals,
    SideModel,
    Weights,
    find_rivals,
    prior_weights,
)
from index.search.evidence_trials import Trial
from index.search.side_rankings import RankedItem
from multifold.types import ASPECTS, Leg, Side

FEWEST = 32  # strangers that have a leg, below which the best candidates stand beside them
FEWEST_KNOWN = 8  # strangers that are shapes, for a fit


@dataclass(frozen=True, eq=False)
class ShapeRanking:
    """What one query says of shapes, at one version of a collection."""

    scorer: EvidenceScorer
    query: EvidenceQuery
    model: SideModel
    among: Candidates | None
    sizes: Callable[[Ids], Ids]  # how many observations editions have

    @classmethod
    def of(
        cls,
        engines: EngineSet,
        strangers: Ids,
        query: EvidenceQuery,
        model: SideModel,
        among: Candidates | None = None,
        sizes: Callable[[Ids], Ids] = no_sizes,
    ) -> "ShapeRanking":
        """The ranking; where few strangers are shapes, scores are standardised by the best of all as well."""
        scorer = EvidenceScorer(engines, strangers, legs=SHAPE_LEGS)
        scores = scorer.scores(query, strangers, sizes(strangers)).scores
        asked = [leg for leg in ASPECTS if leg in scores and engines.choice(leg)]
        if any(np.count_nonzero(~np.isnan(scores[leg])) < FEWEST for leg in asked):
            scorer = replace(scorer, strangers=np.union1d(strangers, scorer.candidates(query, RING)))
        return cls(scorer, query, model, among, sizes)

    def best(self, count: int) -> list[RankedItem]:
        """So many of the best, best first."""
        hits = self.scorer.rank(self.query, self.model, range(count), self.among, self.sizes)
        return [
            RankedItem(hit.edition, "shape", hit.evidence, hit.confidence, legs=hit.legs, gain=hit.gain)
            for hit in hits
        ]

    def of_editions(self, editions: Ids) -> dict[int, RankedItem]:
        """Those of some editions, which rise, that are shapes."""
        table, rows = self.scorer.table(self.query, editions, self.sizes)
        there = table.present[rows].any(axis=1)
        if not there.any():
            return {}
        ratios = table.by_leg(self.model)[rows]
        evidence = ratios.sum(axis=1)
        chances = self.model.chances(evidence, table.whole[rows], self._rivals(table.length))
        return {
            int(editions[row]): RankedItem(
                int(editions[row]),
                "shape",
                float(evidence[row]),
                float(chances[row]),
                legs={leg: float(ratios[row, k]) for k, leg in enumerate(LEGS) if ratios[row, k]},
            )
            for row in np.flatnonzero(there).tolist()
        }

    def _rivals(self, length: float) -> Rivals:
        """What a shape is compared with, whatever its rank: the first two, and all together."""
        items = self.scorer.size if self.among is None else min(self.scorer.size, len(self.among))
        hits = self.scorer.rank(self.query, self.model, range(2), self.among, self.sizes)
        rivals = find_rivals(np.array([hit.evidence for hit in hits]), items, length)
        gain = hits[0].gain + self.model.least_gain(0.0)
        return replace(rivals, everything=gain + float(np.log(max(items, 1))))


def fit_shapes(
    trials: Mapping[Side, Sequence[Trial]],
    fit: Callable[[Weights, Sequence[Trial], Sequence[Leg]], SideModel],
    fewest: int,
) -> dict[Side, SideModel]:
    """The models of the sides of which there are so many trials that shapes answer."""
    of_shapes = {side: [one for trial in some for one in _of_shapes(trial)] for side, some in trials.items()}
    return {
        side: fit(prior_weights(side, SHAPE_LEGS), some, SHAPE_LEGS)
        for side, some in of_shapes.items()
        if len(some) >= fewest
    }


def _of_shapes(trial: Trial) -> Iterator[Trial]:
    """The same asked of shapes alone, if enough are known and it teaches anything then."""
    places = [LEGS.index(leg) for leg in SHAPE_LEGS]
    there: Bool[np.ndarray, " n"] = np.any(trial.table.present[:, places], axis=1)
    known = there[trial.table.strangers]
    if known.sum() < FEWEST_KNOWN:
        return
    asked = replace(
        trial,
        table=replace(trial.table, whole=np.zeros_like(there), heard=1.0),  # no words are looked for
        candidates=trial.candidates & there,
        right=trial.right & there,
        items=round(trial.items * float(known.mean())),
        kind=trial.kind if trial.kind in ("judged", "picture") else "some words",  # all texts count alike
    )
    if asked.right.any() and asked.tells:
        yield asked
