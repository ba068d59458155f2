"""Whether what is meant is here, as far as the best candidates tell."""

import math
from dataclasses import replace

import pytest

from index.search.confidence import Rivals
from index.search.model import UNPROVED_SIGHT, prior_model
from index.search.presence import AnswerEnd, BestHit, end_answer, judge_presence
from index.search.promise import Outcome

MODEL = replace(
    prior_model("text"), outcomes={"sentence": tuple(Outcome(n / 10, n % 3 / 2) for n in range(60))}
)


def rivals(gain: float) -> Rivals:
    """Those of a sentence whose words items have."""
    return Rivals(100, best=4.0, second=1.0, everything=gain + math.log(100), length=1.0, strange=0.0)


@pytest.mark.parametrize(
    ("gain", "first", "sight", "alike", "well"),
    [
        (3.0, 0.1, 1.0, math.nan, True),
        (0.1, 0.1, 1.0, math.nan, False),
        (0.1, 0.6, 1.0, math.nan, True),
        (3.0, 0.1, 0.0, math.nan, False),  # it says much of pictures that nobody sees
        (3.0, 0.1, UNPROVED_SIGHT, math.nan, True),
        (0.1, 0.1, 1.0, 0.01, True),  # many show what is asked
        (3.0, 0.1, 1.0, -0.01, False),
        (3.0, 0.6, 1.0, -0.01, True),
    ],
)
def test_an_answer_matches_well_by_what_all_say_or_by_its_first(
    gain: float, first: float, sight: float, alike: float, well: bool
) -> None:
    presence = judge_presence(MODEL, rivals(gain), BestHit(first, sight, alike), lacks_phrase=False)
    assert presence.well == well
    assert presence.gain == pytest.approx(gain - 0.5)
    assert presence.unlike == (gain < 0.3)


def test_where_nothing_has_a_phrase_nothing_matches_however_sure_it_is() -> None:
    presence = judge_presence(MODEL, rivals(9.0), BestHit(1.0), lacks_phrase=True)
    assert (presence.gain, presence.well) == (-math.inf, False)
    assert end_answer(MODEL, rivals(9.0), 0.2, presence) == AnswerEnd(math.inf)
    assert end_answer(MODEL, rivals(9.0), None, presence) == AnswerEnd(-math.inf)


def test_an_answer_with_an_error_ends_behind_its_best_or_is_empty() -> None:
    presence = judge_presence(MODEL, rivals(9.0), BestHit(1.0), lacks_phrase=False)
    end = end_answer(MODEL, rivals(9.0), 0.1, presence)
    assert 3.0 <= end.evidence < 4.0
    assert end.first_error == 0.1
    assert end_answer(MODEL, rivals(9.0), 0.5, presence).evidence >= end.evidence
    assert end_answer(MODEL, rivals(-1.0), 0.5, presence).evidence == math.inf
