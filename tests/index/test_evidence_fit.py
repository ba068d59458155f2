"""What the fit of evidence is taught by, and that its confidence is as sure as it is right."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.search import evidence_fit
from index.search.evidence import EvidenceTable
from index.search.evidence_fit import JUDGED, fit_confidence, fit_evidence
from index.search.evidence_model import (
    CONFIDENCE_PRIOR,
    LEGS,
    NAMES,
    EvidenceModel,
    SideModel,
    confidence_facts,
    find_rivals,
    prior_weights,
)
from index.search.evidence_questions import questions, read_known_items
from index.search.evidence_trials import Trial, TrialMaker
from multifold.types import Features, Item, Side
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import caption

SPACE = Sphere(FEATURE)
ITEMS, TRIALS = 40, 3_000


@pytest.mark.parametrize(
    ("name", "teaches"),
    [(lambda n: f"final_v{n}", False), (lambda n: f"{'abcdefgh'[n % 8] * 4} thing", True)],
)
def test_a_name_that_all_items_have_teaches_nothing(
    tmp_path: Path, name: Callable[[int], str], teaches: bool
) -> None:
    random = np.random.default_rng(0)

    def encode(texts: Sequence[str]) -> Features:
        return random.standard_normal((len(texts), FEATURE)).astype(np.float32)

    features = encode([""] * ITEMS)
    items = [Item(f"{name(n)} {n}", (caption(0, one, f"caption {n}"),)) for n, one in enumerate(features)]
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        with collection.scoring() as (_, now):
            known = read_known_items(now)
        asked = questions(known, encode)
        assert "name" in {one.kind for one in asked}
        trials = TrialMaker(SPACE, collection.scoring).trials(asked)["text"]
    assert ("name" in {one.kind for one in trials}) == teaches


def test_a_fit_that_ends_after_its_collection_was_closed_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((ITEMS, FEATURE)).astype(np.float32)
    fit = evidence_fit.fit_evidence
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([Item(f"{n}", (caption(0, one, f"chair {n}"),)) for n, one in enumerate(features)])

        def close_and_fit(trials: Mapping[Side, Sequence[Trial]], items: int, version: int) -> EvidenceModel:
            collection.close()
            return fit(trials, items, version)

        monkeypatch.setattr(evidence_fit, "fit_evidence", close_and_fit)
        with pytest.raises(CollectionError, match="closed"):
            collection.fit_evidence()
    monkeypatch.undo()
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.evidence() is None
        collection.fit_evidence()
        assert collection.evidence() is not None


def trial(random: np.random.Generator) -> tuple[np.ndarray, Trial]:
    """The evidence for ten candidates, and which is right: seldom the best of them."""
    evidence = np.sort(random.standard_normal(10))[::-1] * 2
    right = np.arange(10) == random.choice(JUDGED, p=np.arange(JUDGED) / sum(range(JUDGED)))
    everything, values = np.ones(10, np.bool_), np.zeros((10, len(NAMES)), np.float32)
    present = np.ones((10, len(LEGS)), np.bool_)
    table = EvidenceTable(np.arange(10), values, present, ~everything, ~everything)
    return evidence, Trial(0, table, everything, right, 10)


def test_confidence_is_as_sure_as_it_is_right_where_a_limit_holds() -> None:
    """Evidence never makes less sure, though here it should; confidence is true on average all the same."""
    random = np.random.default_rng(0)
    pairs = [trial(random) for _ in range(TRIALS)]
    curve = fit_confidence([evidence for evidence, _ in pairs], [one for _, one in pairs])
    assert np.shape(curve) == np.shape(CONFIDENCE_PRIOR)
    assert np.array(curve)[:, 1:4].min() >= 0.0
    model, chances, right = SideModel(prior_weights("text"), curve), [], []
    for evidence, one in pairs:
        rivals = find_rivals(evidence, one.items, one.table.length)
        chances += model.chances(evidence, one.table.whole, rivals)[:JUDGED].tolist()
        right += one.right[:JUDGED].tolist()
    assert np.mean(chances) == pytest.approx(np.mean(right), abs=0.01)


def pictures(told: Mapping[str, float], count: int = 160) -> list[Trial]:
    """Pictures that ask among twenty items, and by how much each leg tells the right one."""
    random, trials = np.random.default_rng(0), []
    for owner in range(count):
        values, right = np.zeros((20, len(NAMES)), np.float32), np.arange(20) == 7
        for leg, signal in told.items():
            values[:, NAMES.index(leg)] = random.standard_normal(20) + signal * right
        present = np.ones((20, len(LEGS)), np.bool_)
        table = EvidenceTable(np.arange(20), values, present, ~right, np.zeros(20, np.bool_))
        trials.append(Trial(owner, table, np.ones(20, np.bool_), right, 20, "picture"))
    return trials


@pytest.mark.parametrize("told", [{"shape": 2.0, "text": 2.0}, {"shape": 3.0, "text": 0.0}])
def test_a_leg_that_says_nothing_keeps_its_prior_weight(told: Mapping[str, float]) -> None:
    model = fit_evidence({"image": pictures(told)}, 20, 1).of("image")
    prior = prior_weights("image")
    assert (model.weights >= prior)[[NAMES.index(leg) for leg in told]].all()


def test_a_strange_query_and_a_picture_have_a_confidence_of_their_own() -> None:
    evidence, whole = np.array([5.0, 3.0, 1.0]), np.zeros(3, np.bool_)
    kinds = [
        find_rivals(evidence, 100, length, strange)
        for length, strange in ((0.5, 0.0), (0.5, 1.0), (0.0, 0.0))
    ]
    filled = [confidence_facts(evidence, whole, one).reshape(3, *np.shape(CONFIDENCE_PRIOR)) for one in kinds]
    rows = [np.abs(one).sum(axis=2).argmax(axis=1).tolist() for one in filled]
    assert rows == [[0, 3, 3], [1, 4, 4], [2, 5, 5]]
    half = confidence_facts(evidence, whole, find_rivals(evidence, 100, 0.5, 0.5))
    assert half.reshape(filled[0].shape) == pytest.approx((filled[0] + filled[1]) / 2)


def test_strange_queries_of_items_without_a_text_say_nothing_of_those_that_a_text_answers() -> None:
    random = np.random.default_rng(0)
    pairs = [trial(random) for _ in range(TRIALS)]
    evidence = [one for one, _ in pairs]
    lost = [
        replace(
            one,
            table=replace(one.table, length=0.5, heard=0.0, strangers=np.ones(10, np.bool_)),
            right=np.arange(10) == 9,  # never among the best
            kind="strange words",
        )
        for _, one in pairs
    ]
    strange = lost[0].table.strange
    assert strange > 0.1
    less, more = (
        np.array(fit_confidence(evidence, [replace(one, kind=kind) for one in lost]))[1]
        for kind in ("strange words", "some words")
    )
    prior = np.array(CONFIDENCE_PRIOR)[1]
    assert np.abs(less - prior).max() < np.abs(more - prior).max()
