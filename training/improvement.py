"""Training an encoder on the feedback on its hits; the result is kept only if its recall is higher."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Features
from training import checkpoint, loop, prepare, rules
from training.checkpoint import Checkpoint
from training.data import feedback
from training.data.views import ItemViews
from training.recipes import library
from training.recipes.schema import Recipe, parse_recipe
from training.retrieval import comparison, directions
from training.retrieval.comparison import RecallDifference
from training.retrieval.encoder import TorchEncoder

HELD_OUT_SHARE = 0.3  # of the judged texts
LEAST_TEXTS = 20  # held-out texts, fewer cannot separate a gain from chance
PUBLISHED_RATE = 1e-5  # the highest for published towers
MIX = 0.8  # of the new weights
RECIPE_SECTIONS = ("loss", "teacher", "train", "validation")  # taken from the recipe `improve`
TRAIN, REFERENCE_PREFIX = "train", "known/"
GAIN_CUT = 10  # the recall that has to grow


class NothingLearnedError(MultifoldError):
    """There is too little to learn from, or to judge the outcome by."""


@dataclass(frozen=True)
class FeedbackLesson:
    train: list[ManifestEntry]
    collection: list[ManifestEntry]
    held_out: list[tuple[str, ...]]  # good texts of each item of the collection, kept out of the training
    reference: list[ManifestEntry]  # the items that the encoder was measured on before
    reference_source: str


@dataclass(frozen=True)
class ImprovementOutcome:
    """The new encoder, and the recalls for and against it."""

    trained: Checkpoint
    path: Path
    gain: list[RecallDifference]
    rest: list[RecallDifference]
    judged: RecallDifference | None = None  # the first among the hits that people judged, where some were bad

    @property
    def reasons(self) -> list[str]:
        """Why it should not be taken; none: it should.

        People judge what the old encoder shows them, and what it never showed counts as wrong. So a better
        order of the judged hits is a gain as well, and then the recalls among all items decide nothing.
        """
        better = self.judged is not None and self.judged.interval.low > 0
        gain = [] if better else self.gain
        chance = [one for one in gain if one.cut == GAIN_CUT and one.interval.low <= 0]
        worse = [one for one in (*gain, *self.rest, self.judged) if one is not None and one.worse]
        none = "no significant gain on the held-out feedback"
        reasons = [f"{none}: {one}" for one in chance]
        return reasons + [f"its recall is significantly lower: {one}" for one in worse]


def prepare_lesson(collection: Sequence[ManifestEntry], base: Recipe, cache: Path) -> FeedbackLesson:
    """Divide the feedback into training and held-out texts, and add the former training data."""
    remaining, held_out = feedback.hold_out_texts(collection, HELD_OUT_SHARE)
    good = sum(len(feedback.good_texts(entry)) for entry in remaining)
    if sum(map(len, held_out)) < LEAST_TEXTS or not good:
        raise NothingLearnedError(
            f"the feedback has {good} good texts to train on and {sum(map(len, held_out))} held out; "
            f"at least {LEAST_TEXTS} held-out texts are needed"
        )
    try:
        former = prepare.entries(base, cache, base.data.train_split)
        reference = prepare.entries(base, cache, base.data.test_split)[: base.data.test_items]
        source = "the test split of what it was trained on"
    except MultifoldError:
        former = []
        reference = [entry for entry in remaining if entry.texts and not feedback.good_texts(entry)]
        source = "the collection's own captions, of items that nobody judged"
    if not reference:
        raise NothingLearnedError("no item is left to measure what the encoder knew before")
    train = [replace(entry, split=TRAIN) for entry in remaining if entry.texts]
    train += [replace(entry, id=REFERENCE_PREFIX + entry.id, split=TRAIN, meta={}) for entry in former]
    return FeedbackLesson(train, list(remaining), held_out, reference, source)


def recipe_for(base: Recipe, start: Path, data: Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe `improve` merged over that of an encoder, for its towers and with a fraction of its rate."""
    ours = library.load_recipe("improve", changes).model_dump()
    raw = base.model_dump() | {name: ours[name] for name in RECIPE_SECTIONS}
    raw["data"] = {**raw["data"], "manifest": str(data), "train_split": TRAIN}
    raw["train"] |= {"start": str(start), "seed": base.train.seed, "shift": base.train.shift}
    if not any(change.startswith("train.rate=") for change in changes):
        published = "openclip" in (base.image.kind, base.text.kind)
        raw["train"]["rate"] = min(base.train.rate, PUBLISHED_RATE if published else 1.0)
    return parse_recipe(raw, "the recipe of the encoder in use, with `improve` over it")


def improve(
    lesson: FeedbackLesson, start: Path, out: Path, cache: Path, changes: Sequence[str] = (), mix: float = MIX
) -> ImprovementOutcome:
    """Train, blend the weights with the old ones, and compare both encoders."""
    old = checkpoint.load_checkpoint(start)
    manifest.write(out / "learn.jsonl", lesson.train)
    recipe = recipe_for(old.recipe, start, out / "learn.jsonl", changes)
    items = prepare.entries(recipe, cache, TRAIN)
    count = min(recipe.train.items, len(items))
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"items": count})})
    rules.check_recipe(recipe)
    tokenizer = checkpoint.starting_tokenizer(recipe, ())
    groups = prepare.groups(recipe, items, tokenizer, cache)
    steps = recipe.train.steps
    judged = _count_judged(items)
    print(f"training for {steps} steps on {len(items)} items, {judged} of them judged", flush=True)
    trained = checkpoint.load_checkpoint(loop.train(recipe, groups, tokenizer, out))
    blend(trained, old, mix)
    update = {"train": recipe.train, "loss": recipe.loss, "teacher": recipe.teacher}
    new = Checkpoint(old.recipe.model_copy(update=update), old.tokenizer, trained.model)
    path = out / "improved.pt"
    checkpoint.save_checkpoint(path, new)
    gain, rest, judged_hits = compare_encoders(lesson, new, old, cache)
    return ImprovementOutcome(new, path, gain, rest, judged_hits)


def blend(new: Checkpoint, old: Checkpoint, mix: float) -> None:
    """Put the new model's weights on the line from the old one's, `mix` of the way."""
    before = old.model.state_dict()
    blended = {
        name: torch.lerp(before[name], weight, mix) if weight.is_floating_point() else weight
        for name, weight in new.model.state_dict().items()
    }
    new.model.load_state_dict(blended)


def compare_encoders(
    lesson: FeedbackLesson, new: Checkpoint, old: Checkpoint, cache: Path
) -> tuple[list[RecallDifference], list[RecallDifference], RecallDifference | None]:
    """Both on the held-out texts, on what the old one was measured on, and among the judged hits."""
    encoders = [TorchEncoder(one.model, prepare.reader(one.recipe, one.tokenizer)) for one in (new, old)]
    ours, theirs = (
        find_recalls(encoder, views, lesson.held_out, points)
        for encoder in encoders
        for views, points in [_seen(encoder, old.recipe, lesson.collection, cache)]
    )
    gain = [comparison.recall_difference("text_to_shape", ours, theirs, cut) for cut in directions.CUTS]
    captions = [entry.texts for entry in lesson.reference]
    rest = []
    for encoder in encoders:
        views, points = _seen(encoder, old.recipe, lesson.reference, cache)
        observed = directions.encode(encoder, views, captions, points)
        rest.append(directions.served_directions(encoder, observed))
    return gain, comparison.compare_recalls(*rest), compare_judged(lesson, ours, theirs)


def compare_judged(
    lesson: FeedbackLesson, new: directions.RetrievalDirection, old: directions.RetrievalDirection
) -> RecallDifference | None:
    """Which puts a good item first, of those that were judged good or bad for a held-out text."""
    texts = [text for texts in lesson.held_out for text in texts]
    bad_texts = [set(feedback.bad_texts(entry)) for entry in lesson.collection]
    bad = np.array([[text in some for some in bad_texts] for text in texts]) & ~new.relevant
    mixed = bad.any(axis=1)
    if not mixed.any():
        return None
    ours, theirs = (
        replace(one, scores=np.where(bad | one.relevant, one.scores, one.scores.min() - 1)).only(mixed)
        for one in (new, old)
    )
    return comparison.recall_difference("text_to_judged", ours, theirs, 1)


def _seen(
    encoder: TorchEncoder, recipe: Recipe, items: Sequence[ManifestEntry], cache: Path
) -> tuple[ItemViews, Features | None]:
    """The views of items, and the features of their points, if the encoder reads points."""
    views = np.asarray(prepare.views(recipe, items, cache))
    groups = prepare.points(recipe, items, cache)
    return views, None if groups is None else encoder.grouped_points(groups)


def find_recalls(
    encoder: TorchEncoder, views: ItemViews, queries: Sequence[Sequence[str]], points: Features | None = None
) -> directions.RetrievalDirection:
    """Texts search all items of a collection as in a service; an item with the very same text is relevant."""
    observed = directions.encode(encoder, views, queries, points)
    name = "text_to_shape" if points is None else directions.BY_ALL
    return directions.direction(encoder, observed, name, "mean", equal_texts=True)


def _count_judged(items: Sequence[ManifestEntry]) -> int:
    return sum(bool(feedback.good_texts(entry)) for entry in items)


def improvement_report(lesson: FeedbackLesson, outcome: ImprovementOutcome) -> str:
    """The training and the comparison, as Markdown."""
    judged = _count_judged(lesson.train)
    texts = sum(map(len, lesson.held_out))
    reasons = outcome.reasons
    verdict = "It replaces the old encoder." if not reasons else "It does not replace the old encoder:"
    lines = ["# Improvement by feedback\n"]
    lines += [f"Learned from {len(lesson.train):,} items, {judged} of them judged. {verdict}\n"]
    lines += [f"- {reason}" for reason in reasons]
    lines += ["\n## Held-out feedback\n"]
    lines += [f"{texts} texts with good hits, of {len(lesson.collection):,} items.\n"]
    judged_hits = [] if outcome.judged is None else [outcome.judged]
    lines += [comparison.recall_table([*outcome.gain, *judged_hits])]
    lines += [f"## What it knew before\n\n{len(lesson.reference)} items: {lesson.reference_source}.\n"]
    return "\n".join([*lines, comparison.recall_table(outcome.rest)])
