"""How much each kind of question counts."""

import pytest

from index.fit import kinds
from index.fit.kinds import (
    CAPTION,
    JUDGED,
    NAME,
    NEW_PICTURE,
    OTHER_WORDS,
    QUOTE,
    QuestionKind,
)

EVERY = [one for one in vars(kinds).values() if isinstance(one, QuestionKind)]


def test_each_kind_has_a_name_and_what_people_asked_counts_most() -> None:
    assert len({one.name for one in EVERY}) == len(EVERY) == 14
    assert all(JUDGED.weight > one.weight == 1 for one in EVERY if one is not JUDGED)


@pytest.mark.parametrize("strange", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("kind", "familiar", "of_strange"),
    [
        (CAPTION, 1, 0),
        (QUOTE, 0.5, 0),
        (NEW_PICTURE, 0.5, 0),
        (NAME, 1, -1),
        (OTHER_WORDS, 0, 1),
    ],
)
def test_what_it_says_of_a_confidence_depends_on_how_strange_the_query_is(
    kind: QuestionKind, familiar: float, of_strange: float, strange: float
) -> None:
    assert kind.counts_for_confidence(strange) == familiar + of_strange * strange
