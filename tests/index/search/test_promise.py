"""Answers are cut so that as many hold what is right as was asked, and are no longer than that needs."""

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.collection import Collection
from index.contracts import PromiseError
from index.search.model import EvidenceModel
from index.search.promise import MOST_HITS, AnswerCut, Outcome, cut_answer, is_unlike
from tests.index.coloured import coloured, direction, find, ids
from tests.index.spaces import SPACE

BEHIND = st.lists(st.integers(0, 5).map(float), min_size=19, max_size=60)


@given(BEHIND, st.sampled_from([0.05, 0.1, 0.3]), st.randoms(use_true_random=False))
def test_enough_answers_hold_what_is_right_and_none_is_longer_than_that_needs(
    behind: list[float], error: float, random: Random
) -> None:
    count = len(behind)
    gains = random.sample(range(1_000), count)
    outcomes = [Outcome(float(gain), one) for gain, one in zip(gains, behind, strict=True)]
    cut, fewest = cut_answer(outcomes, error), (count + 1) * (1 - error) - 1e-6
    kept = [outcome for outcome in outcomes if outcome.gain >= cut.gain]
    assert sum(outcome.behind <= cut.behind for outcome in kept) >= fewest
    assert cut.behind == 0 or sum(outcome.behind < cut.behind for outcome in kept) < fewest


def test_half_of_the_error_is_for_empty_answers() -> None:
    first = [Outcome(float(gain), 0.0) for gain in range(99)]
    assert cut_answer(first, 0.1) == AnswerCut(4.0, 0.0, 0.1)
    deep = [Outcome(float(gain), float(99 - gain)) for gain in range(99)]
    assert cut_answer(deep, 0.1) == AnswerCut(4.0, 90.0, 0.1)
    shallow = [Outcome(float(gain), float(gain)) for gain in range(99)]
    assert cut_answer(shallow, 0.1) == AnswerCut(4.0, 93.0, 0.1)
    assert cut_answer(shallow[:19], 0.05).gain == -math.inf
    assert cut_answer(first, 0.1, may_be_empty=False) == AnswerCut(-math.inf, 0.0, 0.1)


@pytest.mark.parametrize(("further", "promised"), [(0, 0.1), (5, 0.1), (6, 0.11), (90, 0.95)])
def test_the_first_items_promise_by_how_often_they_lack_what_is_right(further: int, promised: float) -> None:
    """Four answers of 99 are empty by mistake, and one more for the question that is asked."""
    places = [MOST_HITS - 1] * (99 - further) + [MOST_HITS] * further
    cut = cut_answer([Outcome(float(n), 0.0, place) for n, place in enumerate(places)], 0.1)
    assert cut.gain == 4.0
    assert cut.first_error == pytest.approx(promised)


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_questions_like_those_before_are_missed_as_seldom_as_was_asked(error: float) -> None:
    """Of many draws of the same kind half tell how the other half is cut."""
    random = np.random.default_rng(0)
    held, empty = [], []
    for _ in range(200):
        drawn = random.normal(size=(400, 2))
        outcomes = [Outcome(gain, max(0.0, other - gain)) for gain, other in drawn.tolist()]
        cut = cut_answer(outcomes[:200], error)
        empty += [outcome.gain < cut.gain for outcome in outcomes[200:]]
        held += [outcome.gain >= cut.gain and outcome.behind <= cut.behind for outcome in outcomes[200:]]
    assert np.mean(held) == pytest.approx(1 - error, abs=0.01)
    assert 0.2 * error < np.mean(empty) <= error


def test_too_few_questions_promise_nothing() -> None:
    with pytest.raises(PromiseError, match=r"An error of 0.05 needs 19 questions .* there are 18"):
        cut_answer([Outcome(1.0, 0.0)] * 18, 0.05)


def test_a_query_is_unlike_if_it_gains_less_than_nearly_all() -> None:
    outcomes = [Outcome(float(gain), 0.0) for gain in range(100)]
    assert [is_unlike(outcomes, gain) for gain in (-1.0, 3.9, 4.0, 50.0)] == [True, True, False, False]
    assert not is_unlike((), -9.0)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    with Collection.open(tmp_path_factory.mktemp("promise") / "things", SPACE) as opened:
        opened.upsert(coloured(views=1.0))
        yield opened


@pytest.fixture(scope="module")
def model(collection: Collection) -> EvidenceModel:
    return collection.fit_evidence()


def test_an_answer_is_the_beginning_of_the_ranking(collection: Collection, model: EvidenceModel) -> None:
    lengths = []
    for item in coloured()[::9]:
        asked, text = direction(item), str(item.observations[1].text)
        whole = ids(find(collection, asked, text, model=model, limit=100))
        cut = ids(find(collection, asked, text, model=model, limit=100, error=0.05))
        rest = ids(find(collection, asked, text, model=model, limit=100, offset=1, error=0.05))
        assert cut == whole[: len(cut)]
        assert rest == cut[1:]
        assert item.id in cut
        lengths.append(len(cut))
    assert 1 <= np.mean(lengths) < 50


def test_a_long_answer_is_shortened_and_says_what_it_promises(
    collection: Collection, model: EvidenceModel
) -> None:
    """Where nearly all would have to be shown, twenty are, with the error that these have."""
    text = model.of("text")
    far = {
        name: tuple(one._replace(behind=50.0, place=99 if n % 4 == 0 else 3) for n, one in enumerate(some))
        for name, some in text.outcomes.items()
    }
    strange = replace(model, sides={**model.sides, "text": replace(text, outcomes=far)})
    item = coloured()[0]
    asked, words = direction(item), str(item.observations[1].text)
    whole = ids(find(collection, asked, words, model=model, limit=100))
    hits = find(collection, asked, words, model=strange, limit=100, error=0.05)
    assert len(whole) > MOST_HITS
    assert ids(hits) == whole[:MOST_HITS]
    (promised,) = {hit.presence.error for hit in hits if hit.presence}
    assert promised == pytest.approx(0.27, abs=0.04)
    second = find(collection, asked, words, model=strange, limit=15, offset=15, error=0.05)
    assert ids(second) == whole[15:MOST_HITS]
    short = find(collection, asked, words, model=model, limit=100, error=0.05)
    assert {hit.presence.error for hit in short if hit.presence} == {0.05}


def test_a_picture_is_cut_by_questions_of_pictures(collection: Collection, model: EvidenceModel) -> None:
    item = coloured(views=1.0)[7]
    views = np.stack([one.feature for one in item.observations if one.kind == "view"])
    vector = SPACE.vectors(views.mean(axis=0)[None])[0]
    hits = find(collection, vector, side="shape", own={"shape": vector}, model=model, limit=100, error=0.2)
    assert ids(hits)[0] == item.id
    assert len(hits) < 100


def test_a_phrase_that_nothing_has_has_no_answer(collection: Collection, model: EvidenceModel) -> None:
    item = coloured()[0]
    assert find(collection, direction(item), '"a chair"', model=model)
    assert find(collection, direction(item), '"a chair"', model=model, error=0.1) == []


def test_nothing_is_promised_before_a_fit(collection: Collection) -> None:
    with pytest.raises(PromiseError, match="there are 0"):
        find(collection, direction(coloured()[0]), model=EvidenceModel(), error=0.1)
