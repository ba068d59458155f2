"""What the fit of evidence is taught by, and that its confidence is as sure as it is right."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.search.evidence import EvidenceTable
from index.search.evidence_fit import JUDGED, Trial, TrialMaker, fit_confidence
from index.search.evidence_model import CONFIDENCE_PRIOR, LEGS, NAMES, SideModel, find_rivals, prior_weights
from index.search.evidence_questions import questions, read_known_items
from multifold.types import Features, Item
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import caption

SPACE = Sphere(FEATURE)
ITEMS, TRIALS = 40, 300


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
    assert min(curve[:4]) == 0.0
    model, chances, right = SideModel(prior_weights("text"), curve), [], []
    for evidence, one in pairs:
        rivals = find_rivals(evidence, one.items, one.table.length)
        chances += model.chances(evidence, one.table.whole, rivals)[:JUDGED].tolist()
        right += one.right[:JUDGED].tolist()
    assert np.mean(chances) == pytest.approx(np.mean(right), abs=0.01)
