"""The ranking by evidence: what every leg of a search says of an item, added up.

For each leg the evidence is a log-likelihood ratio in nats: how much likelier its score is for the item that
is meant than for another one of this collection. A leg that an item lacks says 0, which is also what it says
of others on average. The weights of the legs are fitted together (see index/fit), so what two legs both know
is not counted twice. An item that has the very thing that asks is what is meant.

The best of each leg are the candidates. All of them are scored exactly on all legs, beside a background of
fixed items, by which scores are standardised. Deeper pages come from a wider ring of candidates that follows
behind the former ones, so pages continue one another. A search of one leg alone is ranked by its scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from index.contracts import Ids
from index.engine_set.engine_set import Candidates
from index.engines.exact_engine import sort_unique
from index.legs.contracts import Asked, Raw, SearchLeg
from index.legs.examples import ExampleScorer
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
from index.search.confidence import WHOLE, Evidence, Rivals, confidences, find_rivals
from index.search.model import UNPROVED_SIGHT, SideModel, strangeness
from index.search.promise import class_of, cut_answer, is_unlike
from index.texts.analysis import asks_phrase
from multifold.compiling import compile_annotated
from multifold.types import ASPECTS, KIND_OF_ASPECT, SIDE_OF, Aspect, Leg, Side

RING = 128  # candidates that each leg gives at first
WIDER = 4  # how much wider each further ring is
BEHIND_PICTURES = 1e6  # nats by which captions are shown after pictures
FEW = 16  # items with the most words of a query, by which it is known how much of it is heard
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
        """Which legs each has."""
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


@dataclass(frozen=True)
class RankedItem:
    """An edition in a ranking."""

    edition: int
    side: Side  # that is shown: of its pictures the one that says most, its captions if it has none
    score: float  # of the side that is shown; the evidence, where items are ranked as a whole
    evidence: float
    confidence: float
    legs: Mapping[Leg, float]  # what each leg adds to the evidence
    # Of all items together: how far their evidence goes beyond that for a meaningless query. -inf: none has a
    # phrase that the query quotes.
    gain: float
    unlike: bool  # whether the query gains less than nearly all questions that the model was fitted on


@dataclass(frozen=True, eq=False)
class Ring:
    """Candidates of one ring, best first."""

    editions: Ids
    ratios: Ratios
    present: Bool[np.ndarray, "n l"]
    stated: Float64[np.ndarray, " n"]
    bare: Bool[np.ndarray, " n"]
    same: Bool[np.ndarray, " n"]
    evidence: Evidence
    sides: Mapping[Leg, Float32[np.ndarray, " n"]]  # the score of each side; NaN where it is missing
    learned: Evidence  # what examples add to the evidence
    judged: Bool[np.ndarray, " n"]  # which are examples

    @classmethod
    def of(
        cls, scores: Scores, rows: Ids, model: SideModel, examples: ExampleScorer | None, leg: Leg | None
    ) -> "Ring":
        """Rising rows, best first; ties go to the smaller edition. One leg orders them by its scores."""
        ratios, learned = scores.ratios(model), np.zeros(len(rows))
        judged = np.zeros(len(rows), np.bool_)
        if examples is not None:
            learned = examples.evidence(scores.editions, scores.background)[rows]
            judged = examples.judged(scores.editions[rows])
        evidence = ratios[rows].sum(axis=1) + learned
        if leg is None:
            order = np.argsort(-evidence, kind="stable")
        else:
            said = scores.raw[leg][rows, SCORE]
            order = np.lexsort((np.where(np.isnan(said), 0, -said), -scores.same[rows]))
        rows = rows[order]
        return cls(
            scores.editions[rows],
            ratios[rows],
            scores.present[rows],
            scores.stated[rows],
            scores.bare[rows],
            scores.same[rows] > 0,
            evidence[order],
            {side: raw[rows, SCORE] for side, raw in scores.raw.items()},
            learned[order],
            judged[order],
        )

    def reaching(self, least: float) -> int:
        """How many candidates come before the first that has less evidence."""
        below = np.flatnonzero(self.evidence < least)
        return int(below[0]) if len(below) else len(self.evidence)

    def rivals(self, items: int, scores: Scores) -> Rivals:
        """What the items of this ring are compared with; examples are left out."""
        others = ~self.judged
        rest = items - int(self.judged.sum())
        return scores.rivals(self.evidence[others], rest)

    def item(
        self,
        place: int,
        shown: Sequence[Aspect],
        confidence: float,
        gain: float,
        *,
        unlike: bool,
        as_whole: bool,
    ) -> RankedItem:
        """What stands at a place."""
        ratios: dict[Leg, float] = dict(zip(LEGS, self.ratios[place].tolist(), strict=True))
        legs = {leg: ratio for leg, ratio in ratios.items() if ratio}
        if learned := float(self.learned[place]):
            legs["examples"] = learned
        there = [leg for leg in shown if self.present[place, LEGS.index(leg)]]
        best = max(there, key=lambda leg: ratios[leg] - (BEHIND_PICTURES if leg == "text" else 0.0))
        return RankedItem(
            int(self.editions[place]),
            SIDE_OF[KIND_OF_ASPECT[best]],
            float(self.evidence[place] if as_whole else self.sides[best][place]),
            float(self.evidence[place]),
            confidence,
            legs,
            gain,
            unlike,
        )


@dataclass(frozen=True, eq=False)
class AskedLegs:
    """The legs of one query, and the background of the collection."""

    asked: Asked
    background: Ids  # editions, rising
    names: tuple[Leg, ...] = LEGS  # that are asked
    shown: tuple[Aspect, ...] = ASPECTS  # of which an item has to have one
    as_whole: bool = True  # whether items are scored by their evidence, or by the side that is shown

    def legs(self, model: SideModel | None = None) -> list[SearchLeg]:
        """The legs that are asked: with a model, those that weigh anything."""
        names = self.names if model is None else model.heard(self.names)
        return make_legs(self.asked, names or self.names)

    @property
    def size(self) -> int:
        """How many items there are to find, about."""
        return max((leg.count() for leg in make_legs(self.asked, self.shown)), default=0)

    def scores(self, editions: Ids, legs: Sequence[SearchLeg]) -> Scores:
        """What some legs say of these editions and of the background, and which sides these have."""
        every = sort_unique(np.concatenate([editions, self.background]))
        asked = {leg.name for leg in legs}
        others = make_legs(self.asked, [name for name in self.shown if name not in asked])
        raw = {leg.name: leg.scores(every) for leg in [*legs, *others]}
        background = np.zeros(len(every), np.bool_)
        background[np.searchsorted(every, self.background)] = True
        return self.weighed(every, raw, background, legs, self.bare(every, raw))

    def weighed(
        self,
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
        scores = Scores(editions, raw, values, background, self.asked.length, bare)
        if WORDS.name not in raw:
            return scores
        scores = replace(scores, heard=float(scores.coverage.max(initial=0)))
        if not scores.strange:  # words say it themselves
            for declared in DECLARED:
                if declared.only_strange:
                    values[:, COLUMNS_OF[declared.name]] = 0
        return scores

    def bare(self, editions: Ids, raw: Mapping[Leg, Raw]) -> Bool[np.ndarray, " n"]:
        """Which editions have no text that says anything."""
        if (reader := self.asked.texts.reader) is not None:
            return ~reader.knows(editions)
        return np.isnan(raw["text"][:, SCORE]) if "text" in raw else np.ones(len(editions), np.bool_)

    def candidates(
        self,
        reach: int,
        among: Candidates | None,
        legs: Sequence[SearchLeg],
        examples: ExampleScorer | None = None,
    ) -> Ids:
        """The best editions of every leg, rising."""
        best = [leg.candidates(reach, among) for leg in legs]
        judged = [] if examples is None else [examples.candidates(reach, among)]
        return sort_unique(np.concatenate([np.empty(0, np.int64), *best, *judged]))

    def rank(
        self,
        model: SideModel,
        page: range,
        among: Candidates | None = None,
        examples: ExampleScorer | None = None,
        error: float | None = None,
    ) -> list[RankedItem]:
        """The items at these places of the ranking, best first; examples add to the evidence.

        With an error the ranking ends where it lacks what is meant that seldom.
        """
        legs = self._needed([leg for leg in self.legs(model) if leg.count()], among)
        alone = legs[0].name if len(legs) == 1 and examples is None else None
        items = self.size if among is None else min(self.size, len(among))
        found: list[RankedItem] = []
        ranked: Ids = np.empty(0, np.int64)  # also those that are not shown
        place = 0
        least = 1.0  # the confidence of what was ranked last
        gain = 0.0
        unlike = False
        end = -np.inf  # the evidence with which the ranking ends
        reach = RING
        rivals: Rivals | None = None
        heard: float | None = None
        while place < page.stop:
            best = self.candidates(reach, among, legs, examples)
            new = np.setdiff1d(best, ranked, assume_unique=True) if len(ranked) else best
            if not len(new):
                break
            ranked = np.concatenate([ranked, new])
            reach *= WIDER
            scores = self.scores(new, legs)
            if heard is None:
                heard = scores.heard
            else:  # further rings change nothing that was said before
                scores = replace(scores, heard=heard)
            rows = np.searchsorted(scores.editions, new)
            rows = rows[scores.present[rows][:, [LEGS.index(one) for one in self.shown]].any(axis=1)]
            if not len(rows):
                continue
            ring = Ring.of(scores, rows, model, examples, alone)
            if rivals is None:
                rivals = ring.rivals(items, scores)
                gain = rivals.gain - model.least_gain(scores.strange)
                if self._lacks_phrase(among):
                    gain = -np.inf
                asked_like = class_of(scores.length, scores.strange)
                outcomes = model.outcomes.get(asked_like, ())
                unlike = is_unlike(outcomes, rivals.gain)
                if error is not None and gain > -np.inf:
                    # nobody knows of words that no item has whether they mean any
                    cut = cut_answer(outcomes, error, may_be_empty=asked_like != "other words")
                    end = rivals.best - cut.behind if rivals.gain >= cut.gain else np.inf
                elif error is not None:
                    end = np.inf
            count = ring.reaching(end)
            if not count:
                break
            chances = confidences(model.confidence, ring.evidence, ring.stated, ring.bare, rivals)
            chances *= np.where(ring.same, 1.0, self._sight(model))
            chances = np.minimum(np.minimum.accumulate(chances), least)
            chosen = range(max(page.start - place, 0), min(page.stop - place, count))
            found += [
                ring.item(one, self.shown, float(chances[one]), gain, unlike=unlike, as_whole=self.as_whole)
                for one in chosen
            ]
            place += count
            least = float(chances[count - 1])
        return found

    def _sight(self, model: SideModel) -> float:
        """How far it is trusted that the encoder sees what a picture shows; 1 for other queries."""
        if self.asked.side != "image":
            return 1.0
        if model.sight is not None:
            return model.sight
        return 1.0 if self.asked.space.sees else UNPROVED_SIGHT

    def _needed(self, legs: list[SearchLeg], among: Candidates | None) -> list[SearchLeg]:
        """These legs; without those that take long, where an item has the words of the query."""
        needed = [leg for leg in legs if not BY_NAME[leg.name].only_strange]
        words = next((leg for leg in needed if leg.name == WORDS.name), None)
        if words is None or len(needed) == len(legs):
            return legs
        best = words.candidates(RING, among)[:FEW]  # as many as are candidates, to be found once
        heard = self.asked.texts.words.weigh(self.asked.text or "", best).shares.max(initial=0)
        if strangeness(float(heard), len(self.background)) > 0:
            return legs
        return needed

    def _lacks_phrase(self, among: Candidates | None) -> bool:
        """Whether the query has a phrase in quotes that no item has which may be found."""
        text = self.asked.text
        if text is None or WORDS.name not in self.names or not asks_phrase(text):
            return False
        allowed = None if among is None else among.editions
        return not len(self.asked.texts.words.rank(text, 1, allowed)[0])
