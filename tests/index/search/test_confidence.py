"""What a confidence rests on."""

import numpy as np
import pytest

from index.search.confidence import (
    CONFIDENCE_PRIOR,
    FACTS,
    GAIN_LIMIT,
    LEAD_LIMIT,
    LEAST_DOUBT,
    ODDS_LIMIT,
    RISING_FACTS,
    Rivals,
    as_curves,
    confidence_facts,
    confidences,
    find_rivals,
)

EVIDENCE = np.array([5.0, 3.0, 1.0])
STATED = np.array([0.4, 0.0, 0.0])
SPOKEN = np.zeros(3, np.bool_)  # each has a text


def test_facts_are_what_plain_arithmetic_says() -> None:
    rivals = find_rivals(EVIDENCE, 100, 0.5, 0.0)
    everything = np.log(np.exp(EVIDENCE).sum() + 97)
    rows = confidence_facts(EVIDENCE, STATED, SPOKEN, rivals).reshape(3, *np.shape(CONFIDENCE_PRIOR))
    for place, (row, lead) in enumerate(((0, 2.0), (4, -2.0), (4, -4.0))):
        share = np.exp(EVIDENCE[place] - everything)
        gain = min(everything - np.log(100), GAIN_LIMIT)
        wanted = [
            gain,
            np.log(share / (1 - share)),
            max(lead, -LEAD_LIMIT),
            STATED[place],
            0.0,
            0.5,
            1.0,
        ]
        assert rows[place, row] == pytest.approx(wanted), FACTS
        assert not np.delete(rows[place], row, axis=0).any()


def plain_facts(evidence: np.ndarray, stated: np.ndarray, bare: np.ndarray, rivals: Rivals) -> np.ndarray:
    """The same by arrays."""
    likely = np.clip(evidence - rivals.everything, -ODDS_LIMIT, -LEAST_DOUBT)
    lead = np.where(
        evidence >= rivals.best, rivals.best - rivals.second, np.maximum(evidence - rivals.best, -LEAD_LIMIT)
    )
    facts = np.zeros((len(evidence), len(FACTS)))
    facts[:, 0] = min(rivals.gain, GAIN_LIMIT)
    facts[:, 1] = np.clip(likely - np.log(-np.expm1(likely)), -ODDS_LIMIT, ODDS_LIMIT)
    facts[:, 2] = np.minimum(lead, LEAD_LIMIT)
    facts[:, 3] = stated
    facts[:, 4] = np.where(stated > 0, np.log(max(1, int(np.count_nonzero(stated)))), 0.0)
    facts[:, 5:] = rivals.length, 1.0
    text, first = float(rivals.length > 0), evidence >= rivals.best
    strange = text * rivals.strange
    shares = (text - strange, strange * ~bare, strange * bare, 1 - text)
    return np.stack([facts * (part * share)[:, None] for part in (first, ~first) for share in shares], axis=1)


@pytest.mark.parametrize("items", [0, 1, 2, 200])
@pytest.mark.parametrize(("length", "strange"), [(0.5, 0.0), (0.5, 0.3), (1.0, 1.0), (0.0, 0.0)])
def test_facts_of_many_items_are_what_arrays_say(items: int, length: float, strange: float) -> None:
    rng = np.random.default_rng(items)
    evidence = rng.standard_normal(items) * 8
    stated = np.maximum(rng.standard_normal(items), 0)
    bare = rng.random(items) < 0.5
    rivals = find_rivals(evidence, 10 * items, length, strange)
    most = np.sort([*evidence, *np.zeros(max(2 - items, 0))])[-2:]
    assert (rivals.second, rivals.best) == tuple(most)
    rest = np.log(max(9 * items, 1))
    assert rivals.everything == pytest.approx(np.logaddexp.reduce([*evidence, rest]))
    facts = confidence_facts(evidence, stated, bare, rivals).reshape(items, *np.shape(CONFIDENCE_PRIOR))
    assert facts == pytest.approx(plain_facts(evidence, stated, bare, rivals), abs=1e-12)


def test_strange_queries_items_without_texts_and_pictures_have_a_confidence_of_their_own() -> None:
    curves = np.array(CONFIDENCE_PRIOR)
    assert (curves[:, np.isin(FACTS, RISING_FACTS)] >= 0).all()
    curves[:, FACTS.index("gain")] = 0.0  # of the whole answer
    chances = [
        confidences(
            as_curves(curves.ravel()), evidence, np.zeros(3), SPOKEN, find_rivals(evidence, 100, 0.5, 0.0)
        )[0]
        for evidence in (np.array([most, 1.0, 0.5]) for most in np.linspace(1.5, 9, 20))
    ]
    assert chances == sorted(chances)
