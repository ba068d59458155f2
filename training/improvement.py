"""Training an encoder on the feedback on its hits; the result is kept only if its recall is higher."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training import checkpoint, loop, prepare
from training.checkpoint import Checkpoint
from training.data import feedback
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

    @property
    def reasons(self) -> list[str]:
        """Why it should not be taken; none: it should."""
        chance = [one for one in self.gain if one.cut == GAIN_CUT and one.interval.low <= 0]
        worse = [one for one in (*self.gain, *self.rest) if one.worse]
        return [f"no gain beyond chance in what was kept apart of the feedback: {one}" for one in chance] + [
            f"it finds less than before, beyond chance: {one}" for one in worse
        ]


def prepare_lesson(
    collection: Sequence[ManifestEntry], base: Recipe, cache: Path, held_out_share: float = HELD_OUT_SHARE
) -> FeedbackLesson:
    """Divide the feedback into training and held-out texts, and add the former training data."""
    kept, held_out = feedback.hold_out_texts(collection, held_out_share)
    good = sum(len(feedback.good_texts(entry)) for entry in kept)
    if sum(map(len, held_out)) < LEAST_TEXTS or not good:
        raise NothingLearnedError(
            f"people found {good} texts good that can be learned from, and {sum(map(len, held_out))} that "
            f"are kept apart; that takes {LEAST_TEXTS} at least"
        )
    try:
        former = prepare.entries(base, cache, base.data.train_split)
        reference = prepare.entries(base, cache, base.data.test_split)[: base.data.test_items]
        source = "the test split of what it was trained on"
    except MultifoldError:
        former = []
        reference = [entry for entry in kept if entry.texts and not feedback.good_texts(entry)]
        source = "the collection's own captions, of items that nobody judged"
    if not reference:
        raise NothingLearnedError("there is nothing to tell by whether the rest is kept; name --held-out")
    train = [replace(entry, split=TRAIN) for entry in kept if entry.texts]
    train += [replace(entry, id=REFERENCE_PREFIX + entry.id, split=TRAIN, meta={}) for entry in former]
    return FeedbackLesson(train, list(kept), held_out, reference, source)


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
    tokenizer = checkpoint.starting_tokenizer(recipe, ())
    groups = prepare.groups(recipe, items, tokenizer, cache)
    steps, judged = recipe.train.steps, _count_judged(items)
    print(f"learning for {steps} steps from {len(items)} items, {judged} of them judged", flush=True)
    trained = checkpoint.load_checkpoint(loop.train(recipe, groups, tokenizer, out))
    blend(trained, old, mix)
    update = {"train": recipe.train, "loss": recipe.loss, "teacher": recipe.teacher}
    new = Checkpoint(old.recipe.model_copy(update=update), old.tokenizer, trained.model)
    path = out / "improved.pt"
    checkpoint.save_checkpoint(path, new)
    return ImprovementOutcome(new, path, *compare_encoders(lesson, new, old, cache))


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
) -> tuple[list[RecallDifference], list[RecallDifference]]:
    """The recalls of both, on the held-out texts and on what the old one was measured on."""
    views = np.asarray(prepare.views(old.recipe, lesson.collection, cache))
    reference = np.asarray(prepare.views(old.recipe, lesson.reference, cache))
    encoders = [TorchEncoder(one.model, prepare.reader(one.recipe, one.tokenizer)) for one in (new, old)]
    ours, theirs = (find_recalls(encoder, views, lesson.held_out) for encoder in encoders)
    gain = [comparison.recall_difference("text_to_shape", ours, theirs, cut) for cut in directions.CUTS]
    captions = [entry.texts for entry in lesson.reference]
    rest = [directions.directions(one, directions.encode(one, reference, captions)) for one in encoders]
    return gain, comparison.compare_recalls(*rest)


def find_recalls(
    encoder: TorchEncoder, views: UInt8[np.ndarray, "i v h w 3"], queries: Sequence[Sequence[str]]
) -> directions.RetrievalDirection:
    """Texts search all items of a collection; an item is relevant if it has the very same text."""
    observed = directions.encode(encoder, views, queries)
    return directions.direction(encoder, observed, "text_to_shape", "mean", equal_texts=True)


def _count_judged(items: Sequence[ManifestEntry]) -> int:
    return sum(bool(feedback.good_texts(entry)) for entry in items)


def improvement_report(lesson: FeedbackLesson, outcome: ImprovementOutcome) -> str:
    """The training and the comparison, as Markdown."""
    judged, texts = _count_judged(lesson.train), sum(map(len, lesson.held_out))
    reasons = outcome.reasons
    verdict = "It takes the old one's place." if not reasons else "It is not taken:"
    return "\n".join(
        [
            "# Improved by use\n",
            f"Learned from {len(lesson.train):,} items, {judged} of them judged. {verdict}\n",
            *(f"- {reason}" for reason in reasons),
            f"\n## What was kept apart of the feedback\n\n{texts} texts that people found items good for, of "
            f"{len(lesson.collection):,} items.\n",
            comparison.recall_table(outcome.gain),
            f"## What it knew\n\n{len(lesson.reference)} items: {lesson.reference_source}.\n",
            comparison.recall_table(outcome.rest),
        ]
    )
