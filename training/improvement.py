"""An encoder is trained on by the feedback on its hits, and kept only where it finds more."""

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

HELD_OUT = 0.3  # of the texts that people judged
LEAST = 20  # texts kept apart, with which a gain can be told from chance
GENTLE = 1e-5  # the highest for published towers
MIX = 0.8  # of the new weights
LEARNED = ("loss", "teacher", "train", "validation")
TRAIN, KNOWN = "train", "known/"
GAIN = 10  # the recall that has to grow


class NothingLearnedError(MultifoldError):
    """There is too little to learn from, or to judge the outcome by."""


@dataclass(frozen=True)
class FeedbackLesson:
    """What is learned from, and what the outcome is judged by."""

    learn: list[ManifestEntry]
    collection: list[ManifestEntry]
    asked: list[tuple[str, ...]]  # of each item of the collection: texts that were kept apart
    known: list[ManifestEntry]  # what the encoder was measured on before
    known_by: str  # where that comes from


@dataclass(frozen=True)
class ImprovementOutcome:
    """The new encoder, and what speaks for and against it."""

    trained: Checkpoint
    path: Path
    gain: list[RecallDifference]
    rest: list[RecallDifference]

    @property
    def reasons(self) -> list[str]:
        """Why it should not be taken; none: it should."""
        found = [str(one) for one in self.gain if one.cut == GAIN and one.interval.low <= 0]
        worse = [str(one) for one in (*self.gain, *self.rest) if one.worse]
        return [f"no gain beyond chance in what was kept apart of the feedback: {one}" for one in found] + [
            f"it finds less than before, beyond chance: {one}" for one in worse
        ]


def prepare_lesson(
    collection: Sequence[ManifestEntry], base: Recipe, cache: Path, held_out: float = HELD_OUT
) -> FeedbackLesson:
    """Divide what people said, and add what is rehearsed."""
    kept, asked = feedback.hold_out_texts(collection, held_out)
    if sum(map(len, asked)) < LEAST or not any(map(feedback.good_texts, kept)):
        raise NothingLearnedError(
            f"people found {sum(map(len, map(feedback.good_texts, kept)))} texts good that can be "
            f"learned from, and {sum(map(len, asked))} that are kept apart; that takes {LEAST} at least"
        )
    learn = [replace(entry, split=TRAIN) for entry in kept if entry.texts]
    try:
        before = prepare.entries(base, cache, base.data.train_split)
        known = prepare.entries(base, cache, base.data.test_split)[: base.data.test_items]
        known_by = "the test split of what it was trained on"
    except MultifoldError:
        before = []
        known = [entry for entry in kept if entry.texts and not feedback.good_texts(entry)]
        known_by = "the collection's own captions, of items that nobody judged"
    if not known:
        raise NothingLearnedError("there is nothing to tell by whether the rest is kept; name --held-out")
    rehearsed = [replace(entry, id=KNOWN + entry.id, split=TRAIN, meta={}) for entry in before]
    return FeedbackLesson([*learn, *rehearsed], list(kept), asked, known, known_by)


def recipe_for(base: Recipe, began: Path, learn: Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe `improve` laid over that of an encoder, for its towers and with a fraction of its rate."""
    ours = library.load_recipe("improve", changes)
    said_so = any(change.startswith("train.rate=") for change in changes)
    published = "openclip" in (base.image.kind, base.text.kind)
    rate = min(base.train.rate, GENTLE if published else 1.0)
    raw = base.model_dump() | {name: ours.model_dump()[name] for name in LEARNED}
    raw["data"] = {**raw["data"], "manifest": str(learn), "train_split": TRAIN}
    raw["train"] |= {"start": str(began), "seed": base.train.seed, "shift": base.train.shift}
    raw["train"] |= {} if said_so else {"rate": rate}
    return parse_recipe(raw, "the recipe of the encoder in use, with `improve` over it")


def improve(
    lesson: FeedbackLesson, began: Path, out: Path, cache: Path, changes: Sequence[str] = (), mix: float = MIX
) -> ImprovementOutcome:
    """Learn, mix, and ask both encoders."""
    old = checkpoint.load_checkpoint(began)
    manifest.write(out / "learn.jsonl", lesson.learn)
    recipe = recipe_for(old.recipe, began, out / "learn.jsonl", changes)
    items = prepare.entries(recipe, cache, TRAIN)
    count = min(recipe.train.items, len(items))
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"items": count})})
    tokenizer = checkpoint.starting_tokenizer(recipe, ())
    groups = prepare.groups(recipe, items, tokenizer, cache)
    print(
        f"learning for {recipe.train.steps} steps from {len(items)} items, {_judged(items)} of them judged",
        flush=True,
    )
    trained = checkpoint.load_checkpoint(loop.train(recipe, groups, tokenizer, out))
    blend(trained, old, mix)
    described = old.recipe.model_copy(
        update={"train": recipe.train, "loss": recipe.loss, "teacher": recipe.teacher}
    )
    new = Checkpoint(described, old.tokenizer, trained.model)
    path = out / "improved.pt"
    checkpoint.save_checkpoint(path, new)
    return ImprovementOutcome(new, path, *compare_encoders(lesson, new, old, cache))


def blend(new: Checkpoint, old: Checkpoint, mix: float) -> None:
    """Put the new model's weights on the line from the old one's, `mix` of the way."""
    before = old.model.state_dict()
    between = {
        name: torch.lerp(before[name], weight, mix) if weight.is_floating_point() else weight
        for name, weight in new.model.state_dict().items()
    }
    new.model.load_state_dict(between)


def compare_encoders(
    lesson: FeedbackLesson, new: Checkpoint, old: Checkpoint, cache: Path
) -> tuple[list[RecallDifference], list[RecallDifference]]:
    """What was kept apart of the feedback, and what the old one was measured on, asked of both."""
    views = np.asarray(prepare.views(old.recipe, lesson.collection, cache))
    known = np.asarray(prepare.views(old.recipe, lesson.known, cache))
    encoders = [TorchEncoder(one.model, prepare.reader(one.recipe, one.tokenizer)) for one in (new, old)]
    ours, theirs = (find_recalls(encoder, views, lesson.asked) for encoder in encoders)
    gain = [comparison.recall_difference("text_to_shape", ours, theirs, cut) for cut in directions.CUTS]
    captions = [entry.texts for entry in lesson.known]
    rest = [directions.directions(one, directions.encode(one, known, captions)) for one in encoders]
    return gain, comparison.compare_recalls(*rest)


def find_recalls(
    encoder: TorchEncoder, views: UInt8[np.ndarray, "i v h w 3"], asked: Sequence[Sequence[str]]
) -> directions.RetrievalDirection:
    """Texts that ask all items of a collection; an item is right if the very text was said of it."""
    observed = directions.encode(encoder, views, asked)
    return directions.direction(encoder, observed, "text_to_shape", "mean", equal_texts=True)


def _judged(items: Sequence[ManifestEntry]) -> int:
    return sum(bool(feedback.good_texts(entry)) for entry in items)


def improvement_report(lesson: FeedbackLesson, outcome: ImprovementOutcome) -> str:
    """What was learned and what came of it, as Markdown."""
    judged, apart = _judged(lesson.learn), sum(map(len, lesson.asked))
    reasons = outcome.reasons
    verdict = "It takes the old one's place." if not reasons else "It is not taken:"
    return "\n".join(
        [
            "# Improved by use\n",
            f"Learned from {len(lesson.learn):,} items, {judged} of them judged. {verdict}\n",
            *(f"- {reason}" for reason in reasons),
            f"\n## What was kept apart of the feedback\n\n{apart} texts that people found items good for, of "
            f"{len(lesson.collection):,} items.\n",
            comparison.recall_table(outcome.gain),
            f"## What it knew\n\n{len(lesson.known)} items: {lesson.known_by}.\n",
            comparison.recall_table(outcome.rest),
        ]
    )
