"""Verdicts of people teach how evidence is weighted."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pytest

from index.collection import Collection
from index.fit.kinds import CAPTION, NO_TEXTS, UNWRITTEN
from index.fit.questions import KnownItem, judged_questions, places_that_say_something, questions
from index.fit.trials import TrialMaker
from index.legs.table import COLUMNS
from index.store.feedback import FeedbackQueryPart, Judgement
from index.texts.contracts import ItemTexts
from multifold.types import Features, Item, Verdict
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import caption, view

COUNT = 60


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    """Items that have views only: nothing of them can ask as a text."""
    random = np.random.default_rng(0)
    items = []
    for number in range(COUNT):
        centre = random.standard_normal(FEATURE)
        near = (centre + 0.3 * random.standard_normal((2, FEATURE))).astype(np.float32)
        items.append(Item(f"n{number:02}", tuple(view(place, one) for place, one in enumerate(near))))
    with Collection.open(tmp_path / "things", SPACE) as opened:
        opened.upsert(items)
        yield opened


def judge(
    collection: Collection, text: str, item: str, verdict: Verdict = "good", author: str = "ann"
) -> None:
    name = uuid5(NAMESPACE_URL, f"{text} {item} {author}").hex
    query = (FeedbackQueryPart("text", 1.0, text=text),)
    collection.judge(Judgement(name, item, verdict, "item", query, author, None, 1.0))


def meaning(collection: Collection, shift: int = 0) -> dict[str, np.ndarray]:
    """What "wanted 7" means: the item of that number, or of one so many further."""
    features = {}
    for number in range(COUNT):
        item = collection.get(f"n{(number + shift) % COUNT:02}")
        assert item is not None
        features[f"wanted {number}"] = item.observations[0].feature
    return features


def fitted_weights(collection: Collection, shift: int) -> dict[str, float]:
    known = meaning(collection, shift)

    strange = np.ones(FEATURE, np.float32)  # of what means nothing

    def encode(texts: Sequence[str]) -> Features:
        return np.stack([known.get(text, strange) for text in texts])

    model = collection.fit_evidence(encode).of("text")
    assert model.judgements == model.queries == COUNT
    return dict(zip(COLUMNS, model.weights.tolist(), strict=True))


def test_without_verdicts_nothing_asks(collection: Collection) -> None:
    model = collection.fit_evidence(lambda texts: np.zeros((len(texts), FEATURE), np.float32))
    assert "text" not in model.sides


@pytest.mark.parametrize(("shift", "knows"), [(0, True), (7, False)])
def test_verdicts_teach_which_leg_is_right(collection: Collection, shift: int, knows: bool) -> None:
    for number in range(COUNT):
        judge(collection, f"wanted {number}", f"n{number:02}")
    weights = fitted_weights(collection, shift)
    assert (weights["shape"] > 0.5) == knows
    stored = collection.evidence()
    assert stored is not None
    assert stored.of("text").judgements == COUNT


def test_the_good_are_right_and_the_bad_are_among_the_others(collection: Collection) -> None:
    judge(collection, "Wanted  7", "n07")
    judge(collection, "wanted 7", "n08")
    judge(collection, "wanted 7", "n30", "bad")
    judge(collection, "wanted 7", "n31")
    judge(collection, "wanted 7", "n31", "bad", "bob")  # people disagree
    judge(collection, "wanted 7", "gone")
    judge(collection, "wanted 9", "n09", "bad")  # nothing is right
    known = {name.casefold(): one for name, one in meaning(collection).items()}

    def encode(texts: Sequence[str]) -> Features:
        return np.stack([known[" ".join(text.split()).casefold()] for text in texts])

    with collection.scoring() as (_, now):
        (asked,) = judged_questions(now, encode)
    assert (len(asked.good), len(asked.bad), asked.votes) == (2, 1, 6)
    (trial,) = TrialMaker(SPACE, collection.scoring).trials([asked])["text"]
    assert {int(one) for one in trial.scores.editions[trial.right]} == asked.good
    assert set(trial.scores.editions[trial.candidates & ~trial.right].tolist()) > asked.bad
    assert not (trial.scores.background & trial.right).any()


@pytest.mark.parametrize(
    ("path", "captions", "places"),
    [
        ("pack-1.0/wine_glass.gltf", ("wine glass", "pack 1 0 wine glass"), []),
        ("pack-1.0/wine_glass.gltf", ("wine glass", "for red wine, with a stem"), [1]),
        ("a/IMG_2041.jpg", ("a dog on the beach", "IMG 2041"), [0]),
        ("", ("a red chair",), [0]),
        ("a/chair.glb", ("",), []),
    ],
)
def test_captions_that_only_repeat_the_name_are_no_questions(
    path: str, captions: tuple[str, ...], places: list[int]
) -> None:
    texts = ItemTexts(1, "7", path, captions)
    assert places_that_say_something(texts) == places
    features = np.eye(FEATURE, dtype=np.float32)
    item = Item("7", tuple(caption(n, features[n], text) for n, text in enumerate(captions)))
    asked = questions([KnownItem(1, item, texts)], lambda some: features[: len(some)])
    hidden = [one for one in asked if one.texts]
    assert {one.text for one in hidden if one.kind in (CAPTION, NO_TEXTS)} <= {captions[n] for n in places}
    assert bool(hidden) == bool(places)


@pytest.mark.parametrize(("silent", "asking"), [(0, 0), (100, 0), (50, 50), (90, 10)])
def test_items_without_a_text_are_asked_for_as_often_as_there_are_such(silent: int, asking: int) -> None:
    feature = np.ones(FEATURE, np.float32)
    item = Item("IMG_0001.jpg", (caption(0, feature, "a red chair"),))
    said = KnownItem(1, item, ItemTexts(1, item.id, captions=("a red chair",)))
    mute = KnownItem(2, Item("IMG_0002.jpg", ()), ItemTexts(2, "IMG_0002.jpg"))
    every = questions([said] * (100 - silent) + [mute] * silent, None)
    unwritten = [one for one in every if one.kind is UNWRITTEN]
    assert len(unwritten) == asking
    assert all(one.texts == ItemTexts(1, "") and one.known == [] for one in unwritten)
