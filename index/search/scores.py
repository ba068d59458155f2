"""What the legs of a search say of items: the evidence for each, in nats.

For each leg the evidence is a log-likelihood ratio: how much likelier its score is for the item that is meant
than for another one of this collection. A leg that an item lacks says 0, which is also what it says of others
on average. The weights of the legs are fitted together (see index/fit), so what two legs both know is not
counted twice. An item that has the very thing that asks is what is meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from index.contracts import Ids
from index.engines.exact_engine import sort_unique
from index.legs.contracts import Asked, Raw, SearchLeg
from index.legs.table import (
    BARE,
    BY_NAME,
    COLUMNS,
    COLUMNS_OF,
    DECLARED,
    LEG_OF_COLUMN,
    LEGS,
    make_legs,
)
from index.legs.vectors import SAME, SCORE
from index.legs.words import COVERAGE, STATED, WORDS
from index.search.confidence import WHOLE, Evidence, Rivals, find_rivals
from index.search.model import SideModel, strangeness
from multifold.compiling import compile_annotated
from multifold.types import Leg, Side

SAME_NATS = 8.0  # of the very thing that asks; less than a verdict

Ratios = Float64[np.ndarray, "n l"]


@dataclass(frozen=True, eq=False)
class Scores:
    """What the legs say of some editions, which rise; the background is among them."""

    editions: Ids
    raw: Mapping[Leg, Raw]
    values: Float32[np.ndarray, "n w"]  # what is weighted; 0 where a leg is missing
    background: Bool[np.ndarray, " n"]
    length: float  # of the query
    bare: Bool[np.ndarray, " n"]  # which have no text that says anything
    heard: float = 1.0  # the largest share of its rarity that an item has

    @cached_property
    def strange(self) -> float:
        """How strange the query is to these items."""
        return strangeness(self.heard, int(self.background.sum()))

    @cached_property
    def coverage(self) -> Float64[np.ndarray, " n"]:
        """The share of the query's rarity that each has."""
        return self._of_words(COVERAGE)

    @cached_property
    def stated(self) -> Float64[np.ndarray, " n"]:
        """The share of the words of each one's best text that the query has; 0 if that lacks any of it."""
        return self._of_words(STATED) * (self.coverage > WHOLE)

    def _of_words(self, column: int) -> Float64[np.ndarray, " n"]:
        """What the words say of each; 0 where that is nothing."""
        if WORDS.name not in self.raw:
            return np.zeros(len(self.editions))
        said: Float64[np.ndarray, " n"] = np.fmax(self.raw[WORDS.name][:, column], 0).astype(np.float64)
        return said

    @cached_property
    def present(self) -> Bool[np.ndarray, "n l"]:
        present = np.zeros((len(self.editions), len(LEGS)), np.bool_)
        for leg, raw in self.raw.items():
            present[:, LEGS.index(leg)] = ~np.isnan(raw[:, SCORE])
        for place, declared in enumerate(DECLARED):
            if declared.silent_without in self.raw:
                present[:, place] &= present[:, LEGS.index(declared.silent_without)]
        return present

    @cached_property
    def same(self) -> Float64[np.ndarray, " n"]:
        """Which editions have the very thing that asks."""
        same = np.zeros(len(self.editions))
        for leg, raw in self.raw.items():
            if BY_NAME[leg].knows_same:
                np.fmax(same, raw[:, SAME], out=same)
        return same

    def has_any(self, legs: Sequence[Leg]) -> Bool[np.ndarray, " n"]:
        has: Bool[np.ndarray, " n"] = np.any(self.present[:, [LEGS.index(leg) for leg in legs]], axis=1)
        return has

    def of(self, leg: Leg, editions: Ids) -> Float64[np.ndarray, " m"]:
        """What a leg says of some of the editions; NaN where one lacks it."""
        said: Float64[np.ndarray, " m"] = self.raw[leg][:, SCORE].astype(np.float64)
        return said[np.searchsorted(self.editions, editions)]

    def beyond(self, least: Mapping[Side, float]) -> Float64[np.ndarray, " n"]:
        """How far the best picture of each is beyond these scores of its side; NaN where none is stated."""
        beyond = np.full(len(self.editions), np.nan)
        for side in (side for side in least if side in self.raw):
            np.fmax(beyond, self.raw[side][:, SCORE] - least[side], out=beyond)
        return beyond

    def rivals(self, evidence: Evidence, items: int) -> Rivals:
        """What the evidence of candidates among so many items is compared with."""
        return find_rivals(evidence, items, self.length, self.strange)

    def ratios(self, model: SideModel) -> Ratios:
        """The log-likelihood ratio of each leg for each edition."""
        ratios = np.zeros(self.present.shape)
        weights = model.weights_for(self.strange)
        write_ratios(self.values, weights, LEG_OF_COLUMN, self.present, self.background, ratios)
        for leg, raw in self.raw.items():
            if BY_NAME[leg].knows_same:
                ratios[:, LEGS.index(leg)] += SAME_NATS * np.fmax(raw[:, SAME], 0)
        return ratios


@compile_annotated("ratios")
def write_ratios(
    values: Float32[np.ndarray, "n w"],
    weights: Float64[np.ndarray, " w"],
    legs: Int64[np.ndarray, " w"],
    present: Bool[np.ndarray, "n l"],
    background: Bool[np.ndarray, " n"],
    ratios: Float64[np.ndarray, "n l"],
) -> None:
    """Write what the values of each leg say, so that the background gains nothing by it.

    The best of the background may be what is meant, which is none. One more, that scores nothing, stands for
    those who are not in the sample.
    """
    best = -1
    most = -np.inf
    for row in range(len(ratios)):
        for column in range(len(weights)):
            ratios[row, legs[column]] += values[row, column] * weights[column]
        if background[row] and ratios[row].sum() > most:
            best = row
            most = ratios[row].sum()
    gained = np.ones(ratios.shape[1])
    known = np.ones(ratios.shape[1])
    for row in range(len(ratios)):
        for leg in range(ratios.shape[1]):
            if background[row] and row != best and present[row, leg]:
                gained[leg] += np.exp(ratios[row, leg])
                known[leg] += 1
    for row in range(len(ratios)):
        for leg in range(ratios.shape[1]):
            ratios[row, leg] -= np.log(gained[leg] / known[leg]) if present[row, leg] else 0.0


def score_editions(asked: Asked, editions: Ids, legs: Sequence[SearchLeg]) -> Scores:
    """What some legs say of these editions and of the background, and which sides these have."""
    every = sort_unique(np.concatenate([editions, asked.background]))
    named = {leg.name for leg in legs}
    others = make_legs(asked, [name for name in asked.shown if name not in named])
    raw = {leg.name: leg.scores(every) for leg in [*legs, *others]}
    background = np.zeros(len(every), np.bool_)
    background[np.searchsorted(every, asked.background)] = True
    return weigh(asked, every, raw, background, legs, find_bare(asked, every, raw))


def weigh(
    asked: Asked,
    editions: Ids,
    raw: Mapping[Leg, Raw],
    background: Bool[np.ndarray, " n"],
    legs: Sequence[SearchLeg],
    bare: Bool[np.ndarray, " n"],
) -> Scores:
    """The scores of some editions as they are weighted."""
    values = np.zeros((len(editions), len(COLUMNS)), np.float32)
    for leg in legs:
        if leg.name in raw:
            values[:, COLUMNS_OF[leg.name]] = leg.columns(raw[leg.name], background)
    values[:, BARE] *= bare[:, None]
    scores = Scores(editions, raw, values, background, asked.length, bare)
    if WORDS.name not in raw:
        return scores
    scores = replace(scores, heard=float(scores.coverage.max(initial=0)))
    if not (scores.strange or asked.may_mean_others):  # words say it themselves
        for declared in DECLARED:
            if declared.takes_long:
                values[:, COLUMNS_OF[declared.name]] = 0
    return scores


def find_bare(asked: Asked, editions: Ids, raw: Mapping[Leg, Raw]) -> Bool[np.ndarray, " n"]:
    """Which editions have no text that says anything."""
    if (reader := asked.texts.reader) is not None:
        return ~reader.knows(editions)
    return np.isnan(raw["text"][:, SCORE]) if "text" in raw else np.ones(len(editions), np.bool_)
