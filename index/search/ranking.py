"""The ranking by evidence: what every leg of a search says of an item, added up.

The best of each leg are the candidates. All of them are scored exactly on all legs, beside a background of
fixed items, by which scores are standardised. Deeper pages come from a wider ring of candidates that follows
behind the former ones, so pages continue one another. A search of one leg alone is ranked by its scores.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from index.contracts import Ids
from index.engine_set.engine_set import Candidates, EngineQuery
from index.legs.contracts import Asked
from index.legs.examples import ExampleScorer
from index.legs.table import LEGS
from index.legs.vectors import SCORE
from index.search.candidates import count_items, count_texts, lacks_phrase, needed_legs, score_rings
from index.search.confidence import Evidence, Rivals, confidences, find_rivals
from index.search.model import UNPROVED_SIGHT, SideModel
from index.search.presence import BestHit, end_answer, judge_presence
from index.search.promise import MOST_HITS
from index.search.scores import Ratios, Scores
from multifold.types import ASPECTS, EXAMPLES, KIND_OF_ASPECT, SIDE_OF, Aspect, Leg, Presence, Side

FIRST_ITEMS = 30  # among which what is meant likely is
BEHIND_PICTURES = 1e6  # nats by which captions are shown after pictures


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items, best first: what is said of each, and of all together."""

    editions: Ids
    evidence: Evidence
    score: Float64[np.ndarray, " n"]  # of the side that is shown, or the evidence
    shown: Int64[
        np.ndarray, " n"
    ]  # the aspect that is shown: of pictures the one that says most, else captions
    ratios: Ratios  # what each leg adds to the evidence
    learned: Evidence  # what examples add to it
    judged: Bool[np.ndarray, " n"]  # which are examples
    stated: Float64[np.ndarray, " n"]
    bare: Bool[np.ndarray, " n"]
    same: Bool[np.ndarray, " n"]  # which have the very thing that asks
    alike: Float64[
        np.ndarray, " n"
    ]  # how far their pictures are beyond what likely shows a text; NaN: unknown
    confidence: Evidence
    strange: float = 0.0  # how strange the query is to these items
    presence: Presence | None = None
    queries: Mapping[Aspect, EngineQuery] = field(default_factory=dict)  # by which observations are compared
    # Of a page: which words of the query each item has, and which texts the text legs matched: the number of
    # a caption, or a field.
    words: Sequence[tuple[str, ...]] = ()
    texts: Sequence[Mapping[Leg, int | str]] = ()

    def __len__(self) -> int:
        return len(self.editions)

    def take(self, places: slice | Ids) -> "Ranking":
        return replace(self, **{name: values[places] for name, values in self._arrays().items()})

    def followed_by(self, others: "Ranking") -> "Ranking":
        """With these others behind, which are no surer."""
        theirs = others._arrays()
        both: dict[str, Any] = {
            name: np.concatenate([ours, theirs[name]]) for name, ours in self._arrays().items()
        }
        both["confidence"] = np.minimum.accumulate(both["confidence"])
        return replace(self, **both)

    def _arrays(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def until(self, least: float) -> "Ranking":
        """The items that come before the first that has less evidence."""
        below = np.flatnonzero(self.evidence < least)
        return self.take(slice(0, int(below[0]) if len(below) else len(self)))

    def rivals(self, asked: Asked, items: int) -> Rivals:
        """What the items are compared with, among so many; examples are left out."""
        rest = items - int(self.judged.sum())
        return find_rivals(self.evidence[~self.judged], rest, asked.length, self.strange)

    @cached_property
    def sides(self) -> list[Side]:
        """The side that is shown of each."""
        return [SIDE_OF[KIND_OF_ASPECT[ASPECTS[place]]] for place in self.shown.tolist()]

    @cached_property
    def legs(self) -> list[dict[Leg, float]]:
        """What each leg adds to the evidence of each."""
        every: list[dict[Leg, float]] = []
        for ratios, learned in zip(self.ratios.tolist(), self.learned.tolist(), strict=True):
            said = (*zip(LEGS, ratios, strict=True), (EXAMPLES, learned))
            every.append({leg: ratio for leg, ratio in said if ratio})
        return every


NOTHING = Ranking(
    editions=np.empty(0, np.int64),
    evidence=np.empty(0),
    score=np.empty(0),
    shown=np.empty(0, np.int64),
    ratios=np.empty((0, len(LEGS))),
    learned=np.empty(0),
    judged=np.empty(0, np.bool_),
    stated=np.empty(0),
    bare=np.empty(0, np.bool_),
    same=np.empty(0, np.bool_),
    alike=np.empty(0),
    confidence=np.empty(0),
)


def rank(
    asked: Asked,
    model: SideModel,
    page: range,
    among: Candidates | None = None,
    examples: ExampleScorer | None = None,
    error: float | None = None,
) -> Ranking:
    """The items at these places; examples add to the evidence.

    With an error the ranking ends where it lacks what is meant that seldom, or after `MOST_HITS`.
    """
    rings = order_rings(asked, model, among, examples)
    first = next(rings, NOTHING)
    if not len(first):
        return NOTHING
    rivals = first.rivals(asked, count_items(asked, among))
    first = judge_items(first, model, rivals, asked)
    seen = float(first.alike[0]) if asked.side == "text" and first.bare[0] else math.nan
    best = BestHit(float(first.confidence[0]), sight_of(asked, model), seen)
    presence = judge_presence(model, rivals, best, lacks_phrase(asked, among))
    end = end_answer(model, rivals, error, presence)
    among_first = 1 - float(np.prod(1 - first.confidence[:FIRST_ITEMS]))
    presence = replace(presence, error=error, counts=count_texts(asked), chance=among_first)
    found = replace(first.until(end.evidence), presence=presence)
    wanted = page.stop if error is None else MOST_HITS + 1
    while 0 < len(found) < wanted:
        ring = judge_items(next(rings, NOTHING), model, rivals, asked).until(end.evidence)
        if not len(ring):
            break
        found = found.followed_by(ring)
    if error is not None and len(found) > MOST_HITS:
        found = replace(found.take(slice(MOST_HITS)), presence=replace(presence, error=end.first_error))
    return found.take(slice(page.start, page.stop))


def order_rings(
    asked: Asked, model: SideModel, among: Candidates | None, examples: ExampleScorer | None
) -> Iterator[Ranking]:
    """The candidates of each ring that have a side to show, best first."""
    legs = needed_legs(asked, model, among)
    alone = legs[0].name if len(legs) == 1 and examples is None else None
    for candidates, scores in score_rings(asked, legs, among, examples):
        rows = np.searchsorted(scores.editions, candidates)
        ring = add_evidence(asked, scores, model, examples).take(rows[scores.has_any(asked.shown)[rows]])
        if len(ring):
            yield ring.take(best_first(ring, None if alone is None else scores.of(alone, ring.editions)))


def add_evidence(asked: Asked, scores: Scores, model: SideModel, examples: ExampleScorer | None) -> Ranking:
    """All editions that were scored, in no order."""
    ratios = scores.ratios(model)
    learned = np.zeros(len(ratios))
    judged = np.zeros(len(ratios), np.bool_)
    if examples is not None:
        learned = examples.evidence(scores.editions, scores.background)
        judged = examples.judged(scores.editions)
    evidence = ratios.sum(axis=1) + learned
    shown, said = choose_sides(asked, scores, ratios)
    return Ranking(
        editions=scores.editions,
        evidence=evidence,
        score=evidence if asked.as_whole else said,
        shown=shown,
        ratios=ratios,
        learned=learned,
        judged=judged,
        stated=scores.stated,
        bare=scores.bare,
        same=scores.same > 0,
        alike=scores.beyond(asked.space.alike),
        confidence=np.zeros(len(ratios)),
        strange=scores.strange,
    )


def choose_sides(
    asked: Asked, scores: Scores, ratios: Ratios
) -> tuple[Int64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """Which aspect is shown of each, and its score; of an edition that has none of them, any."""
    places = np.array([ASPECTS.index(aspect) for aspect in asked.shown])
    columns = np.array([LEGS.index(aspect) for aspect in asked.shown])
    worth = ratios - BEHIND_PICTURES * (np.array(LEGS) == "text")
    best = np.where(scores.present, worth, -np.inf)[:, columns].argmax(axis=1)
    said = np.stack([scores.raw[aspect][:, SCORE] for aspect in asked.shown], axis=1)
    return places[best], said[np.arange(len(said)), best].astype(np.float64)


def best_first(ring: Ranking, alone: Float64[np.ndarray, " n"] | None) -> Ids:
    """The order of items by their evidence, or by the scores of a leg alone; ties stay in their order."""
    if alone is None:
        return np.argsort(-ring.evidence, kind="stable")
    return np.lexsort((np.where(np.isnan(alone), 0, -alone), ~ring.same))


def judge_items(ring: Ranking, model: SideModel, rivals: Rivals, asked: Asked) -> Ranking:
    """With the confidence of each."""
    chances = confidences(model.confidence, ring.evidence, ring.stated, ring.bare, rivals)
    chances *= np.where(ring.same, 1.0, sight_of(asked, model))
    return replace(ring, confidence=np.minimum.accumulate(chances))


def sight_of(asked: Asked, model: SideModel) -> float:
    """How far it is trusted that the encoder sees what a picture shows; 1 for other queries."""
    if asked.side != "image":
        return 1.0
    if model.sight is not None:
        return model.sight
    return 1.0 if asked.space.sees else UNPROVED_SIGHT
