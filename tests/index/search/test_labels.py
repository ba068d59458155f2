"""Which labels an item is: weights that hold without a fit, and such as are fitted on answers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.legs.table import LEGS
from index.search.labels import (
    COLUMNS,
    FEWEST_ANSWERS,
    NONE,
    PRIOR,
    LabelQuery,
    LabelScorer,
    LabelTable,
    fit_labels,
    judge_labels,
)
from index.search.reranking import OutsideThing
from index.store.browse import editions_of
from tests.index.coloured import COLOURS, coloured, direction
from tests.index.spaces import SPACE

LABELS = 3
TEXT, PICTURE, WORDS = (COLUMNS.index(name) for name in ("text", "picture", "words"))


def table_of(count: int, seed: int = 0, *, telling: int = TEXT) -> tuple[LabelTable, list[frozenset[int]]]:
    """Random scores, of which one column tells the answer, and the answers."""
    rng = np.random.default_rng(seed)
    table = np.zeros((count, LABELS + 1, len(COLUMNS)))
    table[:, :-1, [TEXT, PICTURE]] = rng.standard_normal((count, LABELS, 2))
    table[:, -1, NONE] = 1.0
    answers = rng.integers(LABELS, size=count)
    table[np.arange(count), answers, telling] += 3
    return table, [frozenset({one}) for one in answers.tolist()]


@pytest.mark.parametrize("exclusive", [True, False])
def test_without_answers_the_chances_are_what_plain_arithmetic_says(exclusive: bool) -> None:
    table, answers = table_of(20)
    for told in (None, answers[:5]):  # few answers are none
        background = table if told is None else table[:5]
        chances = judge_labels(table, background, told, exclusive=exclusive)
        evidence = table @ PRIOR
        if exclusive:
            wanted = np.exp(evidence) / np.exp(evidence).sum(axis=1, keepdims=True)
            assert chances.confidence == pytest.approx(wanted[:, :-1])
            assert chances.none == pytest.approx(wanted[:, -1])
        else:  # one of so many
            others = evidence[:, -1:] + np.log(LABELS + 1)
            assert chances.confidence == pytest.approx(1 / (1 + np.exp(others - evidence))[:, :-1])
        assert chances.basis == "prior"
        assert chances.weights.tolist() == [PRIOR.tolist()] * 20


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize(("telling", "other"), [(TEXT, PICTURE), (PICTURE, TEXT)])
def test_answers_teach_which_column_tells(telling: int, other: int, exclusive: bool) -> None:
    table, answers = table_of(FEWEST_ANSWERS, telling=telling)
    subjects, right = table_of(60, seed=1, telling=telling)
    chances = judge_labels(subjects, table, answers, exclusive=exclusive)
    assert chances.basis == "collection"
    weights = chances.weights[0]
    assert weights[telling] > PRIOR[telling]
    assert weights[telling] > weights[other]
    assert (weights[:NONE] >= 0).all()
    best = chances.confidence.argmax(axis=1)
    assert np.mean([one in wanted for one, wanted in zip(best.tolist(), right, strict=True)]) > 0.9


def test_a_fit_has_the_likeliest_weights_near_the_prior() -> None:
    """No small step away from them makes the answers likelier without going further from the prior."""
    table, answers = table_of(50)
    found = fit_labels(table, answers, exclusive=False)

    def loss(weights: np.ndarray) -> float:
        evidence = table @ weights
        chance = 1 / (1 + np.exp(evidence[:, -1:] - evidence[:, :-1]))
        right = np.array([[label in one for label in range(LABELS)] for one in answers])
        likely = np.log(np.where(right, chance, 1 - chance)).sum()
        return float(np.square((weights - PRIOR) / 2.0).sum() / 2 - likely)

    rng = np.random.default_rng(0)
    for _ in range(30):
        step = 0.02 * rng.standard_normal(len(PRIOR))
        step[:NONE] = np.maximum(step[:NONE], -found[:NONE])
        assert loss(found + step) > loss(found) - 1e-4


def test_a_picture_alone_is_judged_by_what_pictures_tell() -> None:
    table, answers = table_of(FEWEST_ANSWERS, telling=TEXT)
    pictured = table.copy()
    pictured[:, :, TEXT] = 0
    whole, alone = (judge_labels(one, table, answers, exclusive=True).weights[0] for one in (table, pictured))
    assert whole[TEXT] > alone[TEXT] == pytest.approx(PRIOR[TEXT])  # nothing was learned of texts
    assert alone[PICTURE] < PRIOR[PICTURE]  # and pictures tell nothing here


def scored(
    collection: Collection, labels: Sequence[LabelQuery], ids: Sequence[str], *outside: OutsideThing
) -> LabelTable:
    with collection.scoring() as (searcher, now):
        editions = np.array(sorted(editions_of(now, ids).values()), np.int64)
        subjects, background, legs = LabelScorer(searcher, now, labels).table(editions, outside)
    assert len(background) == 100
    assert legs.shape == (len(subjects), len(labels), len(LEGS))
    return subjects


def test_every_leg_scores_every_label(tmp_path: Path) -> None:
    items = coloured(views=0.3)
    labels = [
        LabelQuery(colour, direction(items[10 * place])[None]) for place, colour in enumerate(COLOURS[:2])
    ]
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        outside = OutsideThing("text", direction(items[10]), text="something green")
        table = scored(collection, labels, ["n000", "n010", "n050"], outside)
    assert table.shape == (4, 3, len(COLUMNS))
    assert table[:, -1].tolist() == [[0, 0, 0, 0, 1]] * 4
    assert table[:, :-1, WORDS].tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]  # red, green, black, green
    for column in (TEXT, PICTURE):
        assert table[0, 0, column] > table[0, 1, column]
        assert table[1, 1, column] > table[1, 0, column]
    assert table[3, 1, TEXT] > table[3, 0, TEXT]
    assert not table[3, :, PICTURE].any()  # it has none
