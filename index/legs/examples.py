"""What examples say of items: hits of a search that were judged good or bad, as clues to what else is meant.

An item is compared with the examples side by side, each side with the same side of them, or with the one that
they have. How much nearer it is to them than others are is evidence, as the legs of the query give it. The
weights are the same for all collections; docs/benchmarks/evidence.md has what they were chosen by.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float64

from index.contracts import Ids
from index.engine_set.engine_set import Candidates, EngineQuery, EngineSet
from index.legs.standard import standardise
from index.store.item_rows import edition_of, pooled_row
from multifold.types import SIDES, Mix, Side, Vector, Verdict

NATS: Mapping[Verdict, float] = {"good": 12.0, "bad": -12.0}  # that a verdict says of its own item
# For each standard deviation by which an item is nearer to the examples than others are.
WEIGHTS: Mapping[Verdict, Mapping[Side, float]] = {
    "good": {"text": 0.15, "image": 0.4, "shape": 0.4},
    "bad": {"text": -0.15, "image": -0.3, "shape": -0.3},
}
OTHER_SIDES: tuple[Side, ...] = ("shape", "image", "text")  # of an example that lacks one, best first

ExampleQueries: TypeAlias = Mapping[tuple[Verdict, Side], EngineQuery]


@dataclass(frozen=True, eq=False)
class ExampleScorer:
    """The evidence of examples, at one version of a collection."""

    engines: EngineSet
    queries: ExampleQueries = field(default_factory=dict)
    verdicts: Mapping[int, Verdict] = field(default_factory=dict)  # of editions

    def judged(self, editions: Ids) -> Bool[np.ndarray, " n"]:
        """Which editions are examples themselves."""
        return np.isin(editions, list(self.verdicts))

    @property
    def bad(self) -> set[int]:
        return {edition for edition, verdict in self.verdicts.items() if verdict == "bad"}

    def candidates(self, reach: int, among: Candidates | None) -> Ids:
        """The editions that are nearest to the good ones on each side, and all examples that may be found."""
        best = [np.array(list(self.verdicts), np.int64)]
        if among is not None:
            best = [np.intersect1d(best[0], among.editions)]
        for (verdict, side), query in self.queries.items():
            if verdict == "good":
                best.append(self.engines.ranked(query, side, reach, "mean", among)[0])
        return np.unique(np.concatenate(best))

    def evidence(self, editions: Ids, background: Bool[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """What the examples say of each of these editions, which rise, in nats: of the background none."""
        nats, among = np.zeros(len(editions)), Candidates(editions, np.zeros_like(editions))
        for side in SIDES:
            of_side = np.zeros(len(editions))
            present = np.zeros(len(editions), np.bool_)
            for verdict in NATS:
                if (query := self.queries.get((verdict, side))) is not None:
                    scores = self.engines.scores(query, side, "mean", among)
                    present |= ~np.isnan(scores)
                    of_side += WEIGHTS[verdict][side] * standardise(scores, background)
            known = background & present
            level = np.log(np.exp(of_side[known]).mean()) if known.any() else 0.0
            nats += np.where(present, of_side - level, 0.0)
        for edition, verdict in self.verdicts.items():
            nats[editions == edition] += NATS[verdict]
        return nats


def example_scorer(
    engines: EngineSet, verdicts: Mapping[int, Verdict], ask: Callable[[Mix], EngineQuery]
) -> ExampleScorer:
    """Scores by these examples; `ask` makes a query of several vectors."""
    by_side = {side: pooled_vectors(engines, side, list(verdicts)) for side in SIDES}
    queries: dict[tuple[Verdict, Side], EngineQuery] = {}
    for verdict in NATS:
        chosen = [edition for edition, its in verdicts.items() if its == verdict]
        for side in SIDES:
            order = (side, *OTHER_SIDES)
            vectors = [next((by_side[s][one] for s in order if one in by_side[s]), None) for one in chosen]
            there = [vector for vector in vectors if vector is not None]
            if there:
                queries[verdict, side] = ask(Mix(tuple((vector, 1 / len(there)) for vector in there)))
    return ExampleScorer(engines, queries, verdicts)


def pooled_vectors(engines: EngineSet, side: Side, editions: Sequence[int]) -> dict[int, Vector]:
    """The vector of one side of each edition that has it."""
    engine = engines.engines.get((side, "pooled"))
    if engine is None or not editions:
        return {}
    rows = pooled_row(np.unique(np.array(editions, np.int64)), side)
    return {
        int(edition_of(int(row))): vector
        for ids, vectors in engine.blocks(rows)
        for row, vector in zip(ids, vectors, strict=True)
    }
