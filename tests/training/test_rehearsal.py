"""What an encoder knew stays, while it learns from what people say."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from benches.learning import improve
from benches.learning import improve_runs as bench
from training import checkpoint, improvement
from training.data import feedback
from training.improvement import FeedbackLesson, ImprovementOutcome

SMALL = (
    *(change for change in bench.BASE if not change.startswith(("data.furniture_items", "train.steps"))),
    "data.furniture_items=400",
    "train.steps=200",
)
OPTIONS = ("--users", "60", "--items", "200")
CHANGES = ("train.steps=120",)


@pytest.mark.slow
def test_what_was_known_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BASE", SMALL)
    parser = argparse.ArgumentParser()
    improve.add_arguments(parser)
    args = parser.parse_args([*OPTIONS, "--cache", str(tmp_path), "--out", str(tmp_path)])
    base = bench._train_base(tmp_path / "base", tmp_path)
    recipe = checkpoint.read_checkpoint(base).recipe
    collection, _ = bench.simulate_feedback(base, recipe, bench._make_set(args, 1, args.items), 0.0, args)
    lesson = improvement.prepare_lesson(collection, recipe, tmp_path)
    judged = replace(lesson, train=[one for one in lesson.train if feedback.good_texts(one)])

    def learned(lesson: FeedbackLesson, name: str) -> ImprovementOutcome:
        (tmp_path / name).mkdir()
        return improvement.improve(lesson, base, tmp_path / name, tmp_path, CHANGES)

    rehearsed, forgetful = learned(lesson, "rehearsed"), learned(judged, "forgetful")
    assert not any(one.worse for one in rehearsed.rest)
    for kept, lost in zip(rehearsed.rest, forgetful.rest, strict=True):
        assert (kept.direction, kept.cut, kept.old) == (lost.direction, lost.cut, lost.old)
        assert kept.new > lost.new
