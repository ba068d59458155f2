"""From one's own captions to a bundle that has learned them: read once, learn, compare, write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from multifold import manifest
from multifold.bundle.bundle import Bundle, file_hash
from multifold.manifest import ManifestEntry
from training import checkpoint, prepare, rules, towers
from training.bundle_heads import HeadsJudge, ReadItems, learn, read_items
from training.data.sources import folder
from training.data.sources.imported import MOST_BROKEN, SHARES, DatasetError, parse_shares, split_of
from training.data.views import training_items
from training.export.bundle_heads import check_bundle, write_bundle
from training.recipes.schema import Recipe
from training.towers import bundled
from training.train import RunPlace

SPLIT_MANIFEST = "own.jsonl"
BUNDLE = "bundle"


def learn_own(recipe: Recipe, place: RunPlace) -> Bundle:
    """The new bundle, in the run's folder; raises where it finds no more than the old one."""
    rules.check_recipe(recipe, place.ranks.count)
    name = bundled.bundle_of(recipe)
    assert name is not None
    encoder = bundled.opened(name)
    check_bundle(encoder.bundle)
    began = monotonic()
    splits = (recipe.data.train_split, recipe.data.val_split, recipe.data.test_split)
    train, val, test = (_read(recipe, split, place.cache) for split in splits)
    counts = f"{len(train.entries)} items, {len(train.texts)} texts to learn from"
    print(f"{counts}: read in {monotonic() - began:.0f} s", flush=True)
    tokenizer = checkpoint.starting_tokenizer(recipe, ())
    began = monotonic()
    learned = learn(recipe, train, val, tokenizer)
    print(f"learned in {monotonic() - began:.0f} s", flush=True)
    origin = {"manifest": file_hash(prepare.manifest_path(recipe, place.cache)), "seed": recipe.train.seed}
    judge = HeadsJudge(recipe, test, tokenizer)
    return write_bundle(encoder.bundle, learned, judge, place.out / BUNDLE, origin)


def _read(recipe: Recipe, split: str, cache: Path) -> ReadItems:
    """The features of a split; of what is held out, those of so many items as are enough."""
    items = prepare.entries(recipe, cache, split)
    if split != recipe.data.train_split:
        items = items[: recipe.validation.items]
    seen = training_items(items, prepare.view_spec(recipe), towers.image_spec(recipe.image), cache)
    if len(seen.problems) > MOST_BROKEN * len(items):
        raise DatasetError(
            f"{len(seen.problems)} of {len(items)} items of {split} cannot be read. "
            f"The first: {next(iter(seen.problems.values()))}"
        )
    return read_items(bundled.opened(str(bundled.bundle_of(recipe))), seen.entries, seen.views, cache)


def own_manifest(source: Path, out: Path) -> Path:
    """A manifest with splits, of a manifest or of a folder."""
    shares = parse_shares(SHARES)
    if source.is_dir():
        dataset = folder.leave_out_broken(folder.read_folder(source, shares, use_names=False))
        for problem in dataset.problems:
            print(problem)
        entries: Sequence[ManifestEntry] = dataset.entries
    else:
        entries = list(manifest.read(source))
        if all(entry.split for entry in entries):
            return source
        keys = ["\n".join(sorted(entry.texts)) or entry.id for entry in entries]
        pairs = zip(entries, keys, strict=True)
        entries = [replace(entry, split=entry.split or split_of(key, shares)) for entry, key in pairs]
    manifest.write(out / SPLIT_MANIFEST, entries)
    return out / SPLIT_MANIFEST
