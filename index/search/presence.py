"""Whether a collection has what a query means, and where its answer ends."""

import math
from dataclasses import dataclass

from index.search.confidence import Rivals
from index.search.model import UNPROVED_SIGHT, SideModel
from index.search.promise import class_of, cut_answer, is_unlike
from multifold.types import Presence

LIKELY = 0.5  # the confidence from which the first hit is likely what is meant
TRUSTED_SIGHT = UNPROVED_SIGHT  # from which pictures say that something like them is here


@dataclass(frozen=True)
class BestHit:
    """What is known of the first hit."""

    confidence: float
    sight: float = 1.0  # how far it is trusted that the encoder sees what a picture shows that asks
    # How far its picture is beyond the similarity from which it likely shows what a text says, where nobody
    # wrote anything of it; NaN where that is not known. Where many show it, none stands out.
    alike: float = math.nan


def judge_presence(model: SideModel, rivals: Rivals, first: BestHit, lacks_phrase: bool) -> Presence:
    """What the best candidates say of it."""
    if lacks_phrase:
        return Presence(-math.inf, well=False, everything=rivals.everything)
    outcomes = model.outcomes.get(class_of(rivals.length, rivals.strange), ())
    gain = rivals.gain - model.least_gain(rivals.strange)
    stands_out = gain >= 0 and first.sight >= TRUSTED_SIGHT if math.isnan(first.alike) else first.alike >= 0
    well = stands_out or first.confidence >= LIKELY
    return Presence(gain, well, is_unlike(outcomes, rivals.gain), everything=rivals.everything)


@dataclass(frozen=True)
class AnswerEnd:
    evidence: float  # the least of its items
    first_error: float | None = None  # that its first items promise, where it has more than `MOST_HITS`


def end_answer(model: SideModel, rivals: Rivals, error: float | None, presence: Presence) -> AnswerEnd:
    """Where an answer ends that lacks what is meant so seldom."""
    if error is None:
        return AnswerEnd(-math.inf)
    if presence.gain == -math.inf:
        return AnswerEnd(math.inf)
    asked_like = class_of(rivals.length, rivals.strange)
    outcomes = model.outcomes.get(asked_like, ())
    # nobody knows of words that no item has whether they mean any
    cut = cut_answer(outcomes, error, may_be_empty=asked_like != "other words")
    least = rivals.best - cut.behind if rivals.gain >= cut.gain else math.inf
    return AnswerEnd(least, cut.first_error)
