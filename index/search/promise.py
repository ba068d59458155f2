"""The shortest answer that holds what is meant, but for an error that is asked for.

A fit lets a collection ask for its own items, and keeps how each of these questions went: its outcome. An
answer is cut where enough of them held their item, so that a question like them misses it as seldom as was
asked. This is conformal risk control, for the loss "what is meant is not in the answer". An answer that says
too little for the collection to hold what is meant is empty, which counts as a miss too.

An answer of most of a collection is worth nothing, however seldom it misses. A long one has its first items
instead, and says how seldom these miss what is meant.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, NamedTuple

from index.contracts import PromiseError

QueryClass = Literal["picture", "few words", "sentence", "other words"]
LONG = 0.5  # of a whole sentence: from this length a text counts as one
MOSTLY = 0.5  # how strange a query is that counts as one whose words no item has
ROUNDING = 1e-9
MOST_HITS = 20  # of an answer with a promise
UNLIKE = 0.05  # the share of a collection's own questions below which a query gains unusually little


def class_of(length: float, strange: float) -> QueryClass:
    """With which questions of a collection's own a query belongs, by its length and its strangeness."""
    if not length:
        return "picture"
    if strange >= MOSTLY:
        return "other words"
    return "few words" if length < LONG else "sentence"


class Outcome(NamedTuple):
    """How a question of the collection itself went."""

    gain: float  # nats by which the whole answer says more than chance
    behind: float  # nats by which what is right falls behind the best; 0: it is the best
    place: int = 0  # how many items come before what is right


@dataclass(frozen=True)
class AnswerCut:
    """What belongs to an answer."""

    gain: float  # with less, nothing does
    behind: float  # nats behind the best, up to which an item does
    first_error: float  # that its first `MOST_HITS` promise, where it has more


def cut_answer(outcomes: Sequence[Outcome], error: float, *, may_be_empty: bool = True) -> AnswerCut:
    """The cut under which at most this share of questions like these misses what is right.

    At most half of the error is for answers that are empty by mistake, if any may be.
    """
    count = len(outcomes)
    missed = int((count + 1) * error + ROUNDING) - 1  # questions that may miss what is right
    if missed < 0:
        fewest = math.ceil(1 / error) - 1
        raise PromiseError(
            f"An error of {error:g} needs {fewest} questions of a collection's own that are like this one, "
            f"and there are {count}: ask with a larger error, or without."
        )
    needed = count - missed
    rising = sorted(outcomes)  # those that gain least come first
    empty = missed // 2 if may_be_empty else 0
    behind = sorted(outcome.behind for outcome in rising[empty:])
    further = sum(outcome.place >= MOST_HITS for outcome in rising[empty:])
    return AnswerCut(
        gain=rising[empty].gain if empty else -math.inf,
        behind=behind[needed - 1],
        first_error=max(error, (empty + further + 1) / (count + 1)),
    )


def is_unlike(outcomes: Sequence[Outcome], gain: float) -> bool:
    """Whether a query gains less than nearly all questions of the collection's own; these rise."""
    return bisect_right(outcomes, gain, key=itemgetter(0)) < UNLIKE * len(outcomes)
