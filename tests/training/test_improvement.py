"""An encoder learns from what people said, keeps what it knew, and is refused where it does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import file_hash
from multifold.manifest import ManifestEntry
from multifold.metrics import Interval
from tests import tiny
from tests.training import small
from training import checkpoint
from training.batches import add_rivals
from training.checkpoint import Checkpoint
from training.data import feedback
from training.export.improved_bundle import NoCheckpointError, starting_checkpoint
from training.improvement import (
    FeedbackLesson,
    ImprovementOutcome,
    NothingLearnedError,
    blend,
    compare_judged,
    prepare_lesson,
    recipe_for,
)
from training.retrieval.comparison import RecallDifference
from training.retrieval.directions import RetrievalDirection


def entry(name: str, *good: str, rivals: tuple[str, ...] = ()) -> ManifestEntry:
    meta = (
        {feedback.KEY: {"good": list(good), "bad": [], "rivals": list(rivals)}} if good else {"kind": "chair"}
    )
    return ManifestEntry(name, texts=("own", *good), meta=meta)


def test_texts_that_are_held_out_are_nowhere_to_learn_from() -> None:
    asked = [f"text {n}" for n in range(200)]
    kept, apart = feedback.hold_out_texts([entry("a", *asked), entry("b")], 0.3)
    assert 40 <= len(apart[0]) <= 80
    assert not set(apart[0]) & {*kept[0].texts, *feedback.good_texts(kept[0])}
    assert {*apart[0], *feedback.good_texts(kept[0])} == set(asked)
    assert (kept[1], apart[1]) == (entry("b"), ())
    assert feedback.is_held_out_text(" Text  1", 0.3) == feedback.is_held_out_text("text 1", 0.3)


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.05, 0.9))
def test_judged_items_have_about_their_share(judged: int, others: int, share: float) -> None:
    entries = [*(entry(f"j{n}", "x") for n in range(judged)), *(entry(f"o{n}") for n in range(others))]
    places = feedback.sample_places(entries, share)
    assert set(places.tolist()) == set(range(judged + others))
    found = (places < judged).sum() / len(places)
    assert found >= share / 2 or judged / (judged + others) > share


def test_rivals_are_known_by_their_places() -> None:
    entries = [entry("a", "x", rivals=("b", "gone")), entry("b"), entry("c", "y")]
    assert feedback.rival_places(entries) == {0: [1]}


def test_what_an_export_says_amiss_is_nothing() -> None:
    for odd, good in (("odd", ()), ({"good": [1, "t"]}, ("t",))):
        assert feedback.good_texts(ManifestEntry("a", texts=("t",), meta={feedback.KEY: odd})) == good


@settings(deadline=None)
@given(st.sets(st.integers(0, 19), min_size=1), st.integers(1, 24))
def test_a_step_has_some_rivals(items: set[int], room: int) -> None:
    most = max(len(items), room)
    rivals = {item: [(item + 1) % 20, (item + 2) % 20] for item in range(0, 20, 2)}
    found = add_rivals(np.array(sorted(items)), rivals, most, np.random.default_rng(0)).tolist()
    assert len(found) == len(set(found)) <= most
    new = set(found) - items
    assert new <= {rival for item in set(found) & items for rival in rivals.get(item, ())}
    assert len(new) <= max(most - len(items), most // 3)
    assert len(found) >= min(most, len(items))


def model(seed: int) -> Checkpoint:
    recipe = small.recipe()
    return Checkpoint(recipe, small.tokenizer(small.pictures()[1]), small.model(recipe, seed))


def test_weights_are_mixed_on_a_straight_line() -> None:
    old, new = model(0), model(1)
    name = next(iter(old.model.state_dict()))
    first, last = old.model.state_dict()[name].clone(), new.model.state_dict()[name].clone()
    blend(new, old, 0.25)
    assert torch.allclose(new.model.state_dict()[name], 0.75 * first + 0.25 * last, atol=1e-6)


def outcome(gain: tuple[float, float], rest: tuple[float, float]) -> ImprovementOutcome:
    def differs(ends: tuple[float, float]) -> RecallDifference:
        middle = sum(ends) / 2
        return RecallDifference("text_to_shape", 10, 0.5 + middle, 0.5, Interval(*ends))

    return ImprovementOutcome(model(0), Path("x"), [differs(gain)], [differs(rest)])


@pytest.mark.parametrize(
    ("gain", "rest", "reasons"),
    [
        ((0.05, 0.3), (-0.02, 0.02), []),
        ((-0.01, 0.3), (-0.02, 0.02), ["no significant gain"]),
        ((0.05, 0.3), (-0.1, -0.02), ["its recall is significantly lower"]),
        ((-0.3, -0.1), (0.0, 0.1), ["no significant gain", "its recall is significantly lower"]),
    ],
)
def test_only_a_gain_that_costs_nothing_is_taken(
    gain: tuple[float, float], rest: tuple[float, float], reasons: list[str]
) -> None:
    found = outcome(gain, rest).reasons
    assert len(found) == len(reasons)
    assert all(reason in one for reason, one in zip(reasons, found, strict=True))


def test_the_old_encoder_is_not_favoured_for_having_chosen_what_was_judged() -> None:
    """People judged a and b, which the old one showed; the new one puts c first, and has a before b."""
    collection = [
        ManifestEntry(name, texts=("x",), meta={"feedback": {"good": good, "bad": bad}})
        for name, good, bad in (("a", ["t"], []), ("b", [], ["t"]), ("c", [], []))
    ]
    lesson = FeedbackLesson([], collection, [("t",), (), ()], [], "")
    relevant, items = np.array([[True, False, False]]), np.array([0])
    new = RetrievalDirection(np.array([[0.5, 0.1, 0.9]], np.float32), relevant, items)
    old = RetrievalDirection(np.array([[0.8, 0.9, 0.0]], np.float32), relevant, items)
    judged = compare_judged(lesson, new, old)
    assert judged is not None
    assert (judged.new, judged.old) == (1.0, 0.0)
    found = outcome((-0.3, -0.1), (0.0, 0.1))
    assert len(found.reasons) == 2
    assert replace(found, judged=replace(judged, interval=Interval(0.2, 0.9))).reasons == []
    worse = replace(found, judged=replace(judged, interval=Interval(-0.9, -0.2)))
    assert len(worse.reasons) == 3
    silent = [replace(one, meta={}) for one in collection]
    assert compare_judged(replace(lesson, collection=silent), new, old) is None


def test_few_judgements_are_not_enough(tmp_path: Path) -> None:
    base = model(0).recipe
    with pytest.raises(NothingLearnedError, match="at least 20 held-out texts are needed"):
        prepare_lesson([entry("a", "x", "y")], base, tmp_path)


def test_the_recipe_keeps_towers_and_learns_gently(tmp_path: Path) -> None:
    base = model(0).recipe
    made = recipe_for(base, tmp_path / "began.pt", tmp_path / "learn.jsonl", ["train.steps=7"])
    for section in ("image", "text", "geometry", "views"):
        assert getattr(made, section) == getattr(base, section)
    assert made.train.rate == base.train.rate
    assert (made.train.steps, made.loss.name, made.train.start) == (7, "hard", str(tmp_path / "began.pt"))
    assert recipe_for(base, tmp_path, tmp_path, ["train.rate=0.5"]).train.rate == 0.5


def test_a_pulled_bundle_is_refused_with_a_remedy(tmp_path: Path) -> None:
    used = tiny.build(tmp_path / "tiny")
    used = replace(used, provenance={"source": {"repository": "x/y"}})
    with pytest.raises(NoCheckpointError, match="multifold export open_clip"):
        starting_checkpoint(used, None, tmp_path)


def test_the_checkpoint_is_found_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs" / "mine" / "checkpoint.pt"
    path.parent.mkdir(parents=True)
    checkpoint.save_checkpoint(path, model(0))
    made = tiny.build(tmp_path / "tiny")
    used = replace(made, provenance={"checkpoint": file_hash(path)})
    assert starting_checkpoint(used, None, tmp_path).resolve() == path
    with pytest.raises(NoCheckpointError, match="not what the bundle"):
        starting_checkpoint(replace(made, provenance={"checkpoint": "0" * 64}), path, tmp_path)
    with pytest.raises(NoCheckpointError, match="name it by --checkpoint"):
        starting_checkpoint(replace(made, provenance={"checkpoint": "0" * 64}), None, tmp_path)
    assert bundles.load(made.folder)
