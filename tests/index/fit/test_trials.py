"""Questions of items, each among the best others: what is right, and what is hidden meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.fit.kinds import CAPTION, MESH, NEW_PICTURE, NO_TEXTS, PICTURE, UNWRITTEN
from index.fit.questions import Question, questions, read_known_items
from index.fit.trials import Trial, TrialMaker
from index.legs.vectors import SAME, SCORE
from index.store.browse import editions_of
from index.texts.contracts import ItemTexts
from multifold.types import Item, pool_mean
from tests.index.coloured import coloured, without
from tests.index.spaces import SPACE

ITEMS = coloured()
TWINS = [Item(f"t{n}", without(ITEMS[0], "view").observations) for n in range(3)]  # the same captions


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE) as opened:
        opened.upsert([*ITEMS, *TWINS])
        yield opened


def asked(collection: Collection, name: str) -> list[Question]:
    """The questions of one item."""
    edition = collection.read(editions_of, [name])[name]
    every = questions(collection.read(read_known_items, 200), None)
    return [one for one in every if one.owner == edition]


def trials(collection: Collection, *some: Question) -> list[Trial]:
    made = TrialMaker(SPACE, collection.scoring).trials(some)
    return [trial for side in made.values() for trial in side]


def test_an_item_asks_by_what_it_is_and_is_right(collection: Collection) -> None:
    every = asked(collection, "n007")
    assert {one.kind for one in every} == {CAPTION, NO_TEXTS, PICTURE, NEW_PICTURE, MESH}
    assert {one.side for one in every} == {"text", "image", "shape"}
    for trial in trials(collection, *every):
        editions = trial.scores.editions
        assert trial.owner in editions[trial.candidates & trial.right]
        assert (np.diff(editions) > 0).all()
        assert not trial.scores.background[editions == trial.owner].any()  # what is meant is no background
        assert trial.tells
        assert trial.items == len(ITEMS) + len(TWINS)


def test_what_has_the_same_caption_is_as_right(collection: Collection) -> None:
    twins = collection.read(editions_of, ["n000", *(twin.id for twin in TWINS)])
    captions = [one for one in asked(collection, "n000") if one.kind is CAPTION]
    assert captions
    for trial in trials(collection, *captions):
        assert set(trial.scores.editions[trial.right].tolist()) == set(twins.values())


def test_what_asks_is_hidden_from_the_owner(collection: Collection) -> None:
    """It would find itself, as each other does whose very caption asks."""
    caption = next(one for one in asked(collection, "n007") if one.kind is CAPTION)
    assert caption.texts is not None
    assert caption.text not in caption.texts.captions
    (trial,) = trials(collection, caption)
    raw = trial.scores.raw["text"]
    assert not np.nan_to_num(raw[:, SAME]).any()
    own = raw[trial.scores.editions == trial.owner][0, SCORE]
    said = [one for one in ITEMS[7].observations if one.kind == "caption"]
    left = pool_mean(np.stack([one.feature for one in said if one.text != caption.text]))
    mean = SPACE.vectors(left[None])[0]
    assert caption.feature is not None
    query = SPACE.vectors(caption.feature[None])[0]
    assert own == pytest.approx(float(mean @ query), abs=1e-5)


def test_a_question_that_nothing_answers_teaches_nothing(collection: Collection) -> None:
    caption = next(one for one in asked(collection, "n007") if one.kind is CAPTION)
    (trial,) = trials(collection, caption)
    nothing = replace(trial.scores, values=np.zeros_like(trial.scores.values))
    assert not replace(trial, scores=nothing).tells
    assert not replace(trial, right=trial.candidates).tells  # most are right


def test_an_item_without_texts_asks_beside_others_that_have_theirs(collection: Collection) -> None:
    whole = next(one for one in asked(collection, "n007") if one.kind is NO_TEXTS)
    (trial,) = trials(collection, replace(whole, kind=UNWRITTEN, known=[], texts=ItemTexts(0, "")))
    owner = trial.scores.editions == trial.owner
    assert trial.scores.bare.tolist() == owner.tolist()
    assert np.isnan(trial.scores.raw["text"][owner, SCORE]).all()
    assert not np.isnan(trial.scores.raw["text"][~owner, SCORE]).any()
