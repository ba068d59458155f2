"""A training from a recipe to a checkpoint: check, prepare, announce, follow."""

from dataclasses import dataclass
from pathlib import Path

from training import checkpoint, loop, prepare, rules, towers, validation
from training.batches import TrainingItems, count_pairs
from training.checkpoint import CheckpointContent
from training.data.views import VisibleItems
from training.distributed import ProcessRank
from training.recipes.schema import Recipe, with_steps_for
from training.towers.tokenizers import TrainedTokenizer
from training.validation import ValidationSet

PROBLEMS = "problems.txt"


@dataclass(frozen=True)
class RunPlace:
    """Where a run writes, what it keeps for others, and by which processes it is done."""

    out: Path
    cache: Path
    device: str
    ranks: ProcessRank


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """What a run learns from, and what its best step is chosen by."""

    recipe: Recipe  # with the steps of its epochs
    items: TrainingItems
    tokenizer: TrainedTokenizer
    held_out: ValidationSet | None  # of the first process alone
    problems: int  # items whose files cannot be read


def train_recipe(recipe: Recipe, place: RunPlace, *, resume: bool = False, strict: bool = False) -> Path:
    """Train, or go on with the unfinished run; the path of the checkpoint.

    Items whose files cannot be read are left out, and refused if `strict`.
    """
    ranks, out = place.ranks, place.out
    rules.check_recipe(recipe, ranks.count)
    stored = checkpoint.read_checkpoint(out / loop.LAST) if resume else None
    with ranks.first_alone():
        run = prepare_run(recipe, place, stored, strict)
    announce(run, place, stored)
    path = loop.train(
        run.recipe, run.items, run.tokenizer, out, run.held_out, resume, device=place.device, ranks=ranks
    )
    if run.problems:
        ranks.say(f"left out {run.problems} items whose files cannot be read, named in {out / PROBLEMS}")
    return path


def prepare_run(
    recipe: Recipe, place: RunPlace, stored: CheckpointContent | None, strict: bool
) -> PreparedRun:
    """Look for weights, see the items, learn or take over the tokenizer, and load the val split."""
    ranks, cache = place.ranks, place.cache
    if ranks.is_first and stored is None and recipe.train.start is None:
        towers.fetch_weights(recipe)
    seen = prepare.training_set(recipe, cache, strict, place.out / PROBLEMS if ranks.is_first else None)
    recipe = with_steps_for(recipe, _pass_length(recipe, seen))
    texts = [text for entry in seen.entries for text in entry.texts]
    tokenizer = checkpoint.starting_tokenizer(recipe, texts) if stored is None else stored.tokenizer
    ranks.say(f"{recipe.name}: {len(seen.entries)} items, {len(texts)} texts to learn from")
    items = prepare.groups(recipe, seen.entries, tokenizer, cache, seen.views)
    held_out = validation.load_validation_set(recipe, tokenizer, cache) if ranks.is_first else None
    return PreparedRun(recipe, items, tokenizer, held_out, len(seen.problems))


def _pass_length(recipe: Recipe, seen: VisibleItems) -> int:
    """How many items, or pairs, a pass over the data takes."""
    if not recipe.train.pairs:
        return len(seen.entries)
    texts = [len(entry.texts) for entry in seen.entries]
    return int(count_pairs(seen.views.shape[1], texts, recipe.train).sum())


def announce(run: PreparedRun, place: RunPlace, stored: CheckpointContent | None) -> None:
    """Say what is cut, what is odd, and how long the run is."""
    train = run.recipe.train
    ranks = place.ranks
    if run.items.cut:
        context = towers.text_spec(run.recipe.text, run.tokenizer).context
        longer = f"{run.items.cut} texts are longer than [text] context = {context} tokens"
        ranks.say(f"{longer}, and are cut there")
    if train.steps <= train.warmup:
        ranks.say(f"the warm-up takes all of the {train.steps} steps: the full rate is never reached")
    steps = train.steps - (0 if stored is None or stored.run is None else stored.run["step"])
    shared = f", shared by {ranks.count} processes" if ranks.count > 1 else ""
    drawn = "pairs" if train.pairs else "items"
    ranks.say(f"training for {steps} steps of {train.items} {drawn} on {place.device}{shared}")
