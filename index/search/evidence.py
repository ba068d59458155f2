"""The evidence for an item: what every leg of a search says of it, added up.

A *leg* is one way in which a query can speak for an item: the text, image and shape side of the encoder, the
words of the query, and a text reader. For each leg the evidence is a log-likelihood ratio in nats: how much
likelier its score is for the item that is meant than for a stranger of this collection. A leg that an item
lacks says 0. The weights of the legs are fitted together (see evidence_fit.py), so what two legs both know
is not counted twice.

The best of each leg are the candidates. All of them are scored exactly on all legs, beside a fixed sample of
strangers, by which scores are standardised. Deeper pages come from a wider ring of candidates that follows
behind the former ones, so pages continue one another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64

from index.contracts import Ids
from index.engines.exact_engine import sort_unique
from index.search.engine_set import Candidates, EngineQuery, EngineSet
from index.search.evidence_model import (
    LEGS,
    NAMES,
    PLACES,
    Evidence,
    Rivals,
    SideModel,
    Values,
    Weights,
    find_rivals,
    standardise,
    strangeness,
)
from index.search.examples import ExampleScorer
from index.search.side_rankings import ConfidenceOf, RankedItem
from index.store.browse import sample_editions
from index.texts.analysis import asks_phrase
from index.texts.contracts import TextIndex
from index.texts.words import WordIndex
from multifold.errors import needs_extra
from multifold.types import ASPECTS, KIND_OF_ASPECT, SIDE_OF, SIDES, Leg, Pooling, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

Table: TypeAlias = Float32[np.ndarray, "n w"]

RING = 128  # candidates that each leg gives at first
WIDER = 4  # how much wider each further ring is
BEHIND_PICTURES = 1e6  # nats by which captions are shown after pictures
STRANGERS = 256  # items that scores are standardised by
SENTENCE = 12  # words of a query that is long
WHOLE = 0.999  # of the rarity of a query's words
NEARLY_ALL = 0.75  # the share of a query's rarity from which "words all" begins


def no_sizes(editions: Ids) -> Ids:
    """For the means of observations, which need no sizes."""
    return np.zeros(len(editions), np.int64)


@dataclass(frozen=True, eq=False)
class EvidenceQuery:
    """What the legs are asked: a query of the engines, and the text of it, if it has one."""

    query: EngineQuery
    side: Side
    text: str | None = None
    pool: Pooling = "mean"
    exact: bool = False  # candidates too are the best of every row
    own: Mapping[Leg, EngineQuery] = field(default_factory=dict)  # of legs that are asked something else

    def of(self, leg: Leg) -> EngineQuery:
        """What one leg is asked."""
        return self.own.get(leg, self.query)


@dataclass(frozen=True, eq=False)
class LegScores:
    """The scores of some editions, which rise, on every leg; NaN where an edition lacks it."""

    editions: Ids
    scores: dict[Leg, Values]
    coverage: Values  # the share of the query's rarity that an edition has
    most: float = 0.0  # what all words of the query score together
    length: float = 0.0  # of the query, 1 for a whole sentence

    def table(self, strangers: Bool[np.ndarray, " n"]) -> "EvidenceTable":
        """What is weighted of them, standardised by the scores of strangers."""
        values = np.zeros((len(self.editions), len(NAMES)), np.float32)
        for leg, scores in self.scores.items():
            column = PLACES[leg].start
            if leg == "words":
                values[:, column] = scores
                full = np.clip((self.coverage - NEARLY_ALL) / (1 - NEARLY_ALL), 0, 1)
                values[:, column + 1] = self.most * full
                values[:, column + 2] = scores * (1 - self.length)
            else:
                values[:, column] = standardise(scores, strangers)
                values[:, column + 1] = values[:, column] * self.length
        missing = np.full(len(self.editions), np.nan, np.float32)
        present = np.stack([~np.isnan(self.scores.get(leg, missing)) for leg in LEGS], axis=1)
        present[:, LEGS.index("words")] &= present[:, LEGS.index("text")]  # a name says nothing against
        heard = float(self.coverage.max(initial=0)) if self.length and "words" in self.scores else 1.0
        whole = self.coverage > WHOLE
        return EvidenceTable(self.editions, values, present, strangers, whole, self.length, heard)


@dataclass(frozen=True, eq=False)
class EvidenceTable:
    """What is weighted of each leg, for editions that rise; strangers are among them."""

    editions: Ids
    values: Table  # 0 where a leg is missing
    present: Bool[np.ndarray, "n l"]
    strangers: Bool[np.ndarray, " n"]
    whole: Bool[np.ndarray, " n"]  # which have all words of the query
    length: float = 0.0  # of the query
    heard: float = 1.0  # the largest share of its rarity that an edition has

    @property
    def strange(self) -> float:
        """How strange the query is to these items."""
        return strangeness(self.heard, int(self.strangers.sum()))

    def by_leg(self, model: SideModel) -> Float64[np.ndarray, "n l"]:
        """The log-likelihood ratio of each leg for each edition."""
        weights = model.weights_for(self.strange)
        raw = np.stack([self.values[:, PLACES[leg]] @ weights[PLACES[leg]] for leg in LEGS], axis=1)
        others = np.flatnonzero(self.strangers)
        if len(others):  # the first of them may be what is meant, which is no stranger
            others = np.delete(others, raw[others].sum(axis=1).argmax())
        known = self.present[others]
        # strangers gain nothing; one more, that scores nothing, stands for those who are not in the sample
        level = np.log(((np.exp(raw[others]) * known).sum(axis=0) + 1) / (known.sum(axis=0) + 1))
        ratios: Float64[np.ndarray, "n l"] = raw - np.where(self.present, level, 0.0)
        return ratios


@dataclass(frozen=True)
class EvidenceHit:
    """An edition in the ranking by evidence."""

    edition: int
    side: Side  # that is shown: of its pictures the one that says most, its captions if it has none
    evidence: float  # in nats
    confidence: float
    legs: Mapping[Leg, float]  # what each leg adds to the evidence
    # Of all items together: how far their evidence goes beyond that for a meaningless query. -inf: none has a
    # phrase that the query quotes.
    gain: float


@dataclass(frozen=True, eq=False)
class RankedRing:
    """Candidates of one ring, best first."""

    editions: Ids
    ratios: Float64[np.ndarray, "n l"]
    present: Bool[np.ndarray, "n l"]
    whole: Bool[np.ndarray, " n"]
    evidence: Evidence
    learned: Evidence  # what examples add to it
    judged: Bool[np.ndarray, " n"]  # which are examples

    @classmethod
    def of(
        cls, table: EvidenceTable, rows: Ids, model: SideModel, examples: ExampleScorer | None = None
    ) -> "RankedRing":
        """These rows of a table by their evidence; ties go to the smaller edition."""
        ratios, learned = table.by_leg(model), np.zeros(len(table.editions))
        judged = np.zeros(len(learned), np.bool_)
        if examples is not None:
            learned = examples.evidence(table.editions, table.strangers)
            judged = examples.judged(table.editions)
        evidence = ratios.sum(axis=1) + learned
        rows = rows[np.argsort(-evidence[rows], kind="stable")]
        its = (ratios, table.present, table.whole, evidence, learned, judged)
        return cls(table.editions[rows], *(one[rows] for one in its))

    def rivals(self, items: int, length: float, strange: float) -> Rivals:
        """What the items of this ring are compared with; examples are left out."""
        others = ~self.judged
        return find_rivals(self.evidence[others], items - int(self.judged.sum()), length, strange)

    def hit(self, place: int, chance: float, gain: float) -> EvidenceHit:
        """What stands at a place."""
        ratios = self.ratios[place]
        shown = np.where(self.present[place], ratios, -np.inf)[: len(ASPECTS)]
        shown[LEGS.index("text")] -= BEHIND_PICTURES
        legs = {leg: float(ratios[k]) for k, leg in enumerate(LEGS) if ratios[k]}
        if learned := float(self.learned[place]):
            legs["examples"] = learned
        side = SIDE_OF[KIND_OF_ASPECT[ASPECTS[int(shown.argmax())]]]
        return EvidenceHit(int(self.editions[place]), side, float(self.evidence[place]), chance, legs, gain)


@dataclass(eq=False)
class StrangerSample:
    """Editions of a collection by which scores are standardised, drawn again when it has changed much."""

    _editions: Ids = field(default_factory=partial(np.empty, 0, np.int64))
    _size: int = 0  # of the collection when they were drawn
    _version: int = 0

    def editions(self, now: Connection, size: int, version: int) -> Ids:
        """The present sample, rising, of a collection of so many items; what is written anew leaves it."""
        changed = abs(version - self._version) > size / 4
        if changed or not self._size * 4 / 5 <= size <= max(self._size * 5 / 4, 1):
            self._editions, self._size, self._version = sample_editions(now, STRANGERS), size, version
        return self._editions


class HeardLegs(NamedTuple):
    """The legs that weigh anything, and those that do where no item has a word of the query."""

    legs: tuple[Leg, ...]
    of_strange: tuple[Leg, ...]

    @property
    def depend_on_words(self) -> bool:
        """Whether it matters which items have the words of a query."""
        return "words" in self.legs or self.of_strange != self.legs


@dataclass(frozen=True, eq=False)
class EvidenceScorer:
    """Scores items on all legs of one collection, at one version of it."""

    engines: EngineSet
    strangers: Ids  # editions, rising
    words: WordIndex | None = None
    reader: TextIndex | None = None
    legs: tuple[Leg, ...] = LEGS  # that are asked

    @cached_property
    def choices(self) -> Mapping[Leg, int]:
        """How many items each leg of the encoder chooses from."""
        return {aspect: self.engines.choice(aspect) for aspect in ASPECTS}

    @cached_property
    def size(self) -> int:
        """How many items there are to find, about: those that have the commonest of the legs."""
        return max(self.choices[aspect] for aspect in ASPECTS if aspect in self.legs)

    def rank(
        self,
        query: EvidenceQuery,
        model: SideModel,
        page: range,
        among: Candidates | None = None,
        sizes: Callable[[Ids], Ids] = no_sizes,
        examples: ExampleScorer | None = None,
    ) -> list[EvidenceHit]:
        """The items at these places of the ranking, best first; examples add to the evidence."""
        hits: list[EvidenceHit] = []
        ranked: Ids = np.empty(0, np.int64)
        reach, items, least, gain, rivals, heard = RING, self.size, 1.0, 0.0, None, None
        if among is not None:
            items = min(items, len(among))
        while len(ranked) < page.stop:
            new = self.candidates(query, reach, among, model)
            if examples is not None:
                new = np.union1d(new, examples.candidates(reach, among))
            if len(ranked):
                new = np.setdiff1d(new, ranked)
            if not len(new):
                break
            table, rows = self.table(query, new, sizes)
            if heard is None:  # further rings change nothing that was said before
                heard = table.heard if self._heard(model).depend_on_words else 1.0
            table = replace(table, heard=heard)
            ring = RankedRing.of(table, rows, model, examples)
            if rivals is None:
                rivals = ring.rivals(items, table.length, table.strange)
                gain = rivals.everything - float(np.log(max(items, 1))) - model.least_gain(table.strange)
                if self._lacks_phrase(query.text, among):
                    gain = -np.inf
            chances = model.chances(ring.evidence, ring.whole, rivals)
            chances = np.minimum(np.minimum.accumulate(chances), least)
            shown = range(max(page.start - len(ranked), 0), min(page.stop - len(ranked), len(new)))
            hits += [ring.hit(place, float(chances[place]), gain) for place in shown]
            ranked, least = np.union1d(ranked, new), float(chances[-1])
            reach *= WIDER
        return hits

    def _lacks_phrase(self, text: str | None, among: Candidates | None) -> bool:
        """Whether a query has a phrase in quotes that no item has which may be found."""
        if self.words is None or text is None or not asks_phrase(text):
            return False
        return not len(self.words.rank(text, 1, None if among is None else among.editions)[0])

    def table(
        self, query: EvidenceQuery, candidates: Ids, sizes: Callable[[Ids], Ids] = no_sizes
    ) -> tuple[EvidenceTable, Ids]:
        """What is weighted of candidates, which rise, and of strangers, and the rows of the candidates."""
        editions = sort_unique(np.concatenate([candidates, self.strangers]))
        strangers = np.zeros(len(editions), np.bool_)
        strangers[np.searchsorted(editions, self.strangers)] = True
        scores = self.scores(query, editions, sizes(editions))
        return scores.table(strangers), np.searchsorted(editions, candidates)

    def candidates(
        self,
        query: EvidenceQuery,
        reach: int,
        among: Candidates | None = None,
        model: SideModel | None = None,
    ) -> Ids:
        """The best editions of every leg, rising; with a model, of the legs that say anything."""
        allowed = None if among is None else among.editions
        heard = self._heard(model)
        legs = heard.legs
        said: Ids = np.empty(0, np.int64)
        if self.words is not None and query.text is not None and heard.depend_on_words:
            said = self.words.near(query.text, reach, allowed)
            if model is not None and heard.of_strange != legs:
                share = float(self.words.weigh(query.text, said)[1].max(initial=0))
                legs = self._heard_with(model.weights_for(strangeness(share, len(self.strangers))))
        best = [
            self.engines.ranked(query.of(side), side, reach, query.pool, among, exact=query.exact)[0]
            for side in ASPECTS
            if side in legs
        ]
        if "words" in legs:
            best.append(said)
        if query.text is not None and self.reader is not None and "reader" in legs:
            best.append(self.reader.rank(query.text, reach, allowed)[0])
        return sort_unique(np.concatenate(best))

    def _heard(self, model: SideModel | None) -> HeardLegs:
        """All legs without a model."""
        if model is None:
            return HeardLegs(self.legs, self.legs)
        of_strange = model.weights_for(strangeness(0.0, len(self.strangers)))
        return HeardLegs(self._heard_with(model.weights), self._heard_with(of_strange))

    def _heard_with(self, weights: Weights) -> tuple[Leg, ...]:
        """The legs that weigh anything; all, if these might not reach every item."""
        choices = self.choices
        heard = tuple(leg for leg in self.legs if weights[PLACES[leg]].any() and choices.get(leg) != 0)
        items = max(1, self.size, 0 if self.words is None else self.words.count())
        return heard if max((choices.get(leg, 0) for leg in heard), default=0) >= items else self.legs

    def scores(self, query: EvidenceQuery, editions: Ids, sizes: Ids) -> LegScores:
        """The scores of these editions, which rise, and how many observations each has."""
        among = Candidates(editions, sizes)
        scores: dict[Leg, Values] = {
            side: self.engines.scores(query.of(side), side, query.pool, among)
            for side in ASPECTS
            if side in self.legs
        }
        coverage, most = np.zeros(len(editions), np.float32), 0.0
        if query.text is not None and self.words is not None:
            scores["words"], coverage = self.words.weigh(query.text, editions)
            most = self.words.most(query.text)
        if query.text is not None and self.reader is not None:
            read = self.reader.scores(query.text, editions)
            scores["reader"] = np.where(read == 0, np.float32(np.nan), read)
        length = 0.0 if query.text is None else min(1.0, len(query.text.split()) / SENTENCE)
        return LegScores(editions, scores, coverage, most, length)


@dataclass(frozen=True)
class RankedPage:
    """What one query ranked, before anything of it is read."""

    query: EngineQuery
    places: Sequence[RankedItem]
    sure: ConfidenceOf

    def confidence(self) -> Mapping[int, float | None]:
        """How sure each place is."""
        by_place = {one.id: one.confidence for one in self.places if one.legs is not None}
        for side, places in _by_side([one for one in self.places if one.legs is None]):
            values = self.sure(side, [one.score for one in places])
            by_place |= {one.id: value for one, value in zip(places, values, strict=True)}
        return by_place

    def captions(self) -> dict[tuple[int, Leg], int]:
        """The number of the caption that a text leg matched, by edition and leg."""
        every = ((one.id, leg, text) for one in self.places for leg, text in one.texts.items())
        return {(edition, leg): text for edition, leg, text in every if isinstance(text, int)}


def _by_side(places: Sequence[RankedItem]) -> Iterator[tuple[Side, list[RankedItem]]]:
    for side in SIDES:
        mine = [place for place in places if place.side == side]
        if mine:
            yield side, mine
