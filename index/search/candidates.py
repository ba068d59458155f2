"""Which items a search looks at: the best of each leg, and of further rings the next ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from index.contracts import Ids
from index.engine_set.engine_set import Candidates
from index.engines.exact_engine import sort_unique
from index.legs.contracts import Asked, SearchLeg
from index.legs.examples import ExampleScorer
from index.legs.table import BY_NAME, make_legs
from index.legs.words import WORDS
from index.search.model import SideModel, strangeness
from index.search.scores import Scores, score_editions
from index.texts.analysis import asks_phrase
from multifold.types import TextCounts

RING = 128  # candidates that each leg gives at first
WIDER = 4  # how much wider each further ring is
MOST_HEARD = 16  # items with the most words of a query, by which it is known how much of it is heard


def legs_of(asked: Asked, model: SideModel | None = None) -> list[SearchLeg]:
    """The legs that are asked: with a model, those that weigh anything."""
    names = asked.names if model is None else model.heard(asked.names)
    return make_legs(asked, names or asked.names)


def needed_legs(asked: Asked, model: SideModel, among: Candidates | None) -> list[SearchLeg]:
    """The legs that have items; without those that take long, where words say what is meant."""
    legs = [leg for leg in legs_of(asked, model) if leg.count()]
    needed = [leg for leg in legs if not BY_NAME[leg.name].takes_long]
    words = next((leg for leg in needed if leg.name == WORDS.name), None)
    if words is None or len(needed) == len(legs) or asked.may_mean_others:
        return legs
    best = words.candidates(RING, among)[:MOST_HEARD]  # as many as are candidates, to be found once
    heard = asked.texts.words.weigh(asked.said, best).shares.max(initial=0)
    return legs if strangeness(float(heard), len(asked.background)) > 0 else needed


def find_candidates(
    legs: Sequence[SearchLeg], reach: int, among: Candidates | None, examples: ExampleScorer | None = None
) -> Ids:
    """The best editions of every leg, rising."""
    best = [leg.candidates(reach, among) for leg in legs]
    judged = [] if examples is None else [examples.candidates(reach, among)]
    return sort_unique(np.concatenate([np.empty(0, np.int64), *best, *judged]))


def score_rings(
    asked: Asked, legs: Sequence[SearchLeg], among: Candidates | None, examples: ExampleScorer | None
) -> Iterator[tuple[Ids, Scores]]:
    """Candidates and what is said of them, ring by ring; further ones change nothing that was said before."""
    reach = RING
    seen: Ids = np.empty(0, np.int64)
    heard: float | None = None
    while True:
        best = find_candidates(legs, reach, among, examples)
        new = np.setdiff1d(best, seen, assume_unique=True) if len(seen) else best
        if not len(new):
            return
        scores = score_editions(asked, new, legs)
        heard = scores.heard if heard is None else heard
        yield new, replace(scores, heard=heard)
        seen = np.concatenate([seen, new])
        reach *= WIDER


def count_items(asked: Asked, among: Candidates | None) -> int:
    """How many items there are to find, about."""
    size = max((leg.count() for leg in make_legs(asked, asked.shown)), default=0)
    return size if among is None else min(size, len(among))


def lacks_phrase(asked: Asked, among: Candidates | None) -> bool:
    """Whether the query has a phrase in quotes that no item has which may be found."""
    text = asked.text
    if text is None or WORDS.name not in asked.names or not asks_phrase(text):
        return False
    allowed = None if among is None else among.editions
    return not len(asked.texts.words.rank(text, 1, allowed)[0])


def count_texts(asked: Asked) -> TextCounts | None:
    """How many items have texts that say anything, as the background tells, and the words of the query."""
    if asked.text is None or WORDS.name not in asked.names:
        return None
    words = asked.texts.words
    reader = asked.texts.reader
    sample = asked.background
    known = 1.0 if reader is None else np.count_nonzero(reader.knows(sample)) / max(1, len(sample))
    return TextCounts(round(known * words.count()), words.having(asked.text))
