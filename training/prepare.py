"""From a recipe to what the loop and the evaluation read: entries, views, captions, tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from multifold import manifest
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec, Tokenizer
from multifold.errors import MultifoldError
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.cameras import rig
from renderers.contracts import LOOK
from training import towers
from training.batches import TrainingItems
from training.data import feedback
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.sources.webdataset import is_shard_pattern, shard_manifest
from training.data.views import load_views, training_views
from training.recipes.schema import Recipe
from training.towers.tokenizers import TrainedTokenizer


def entries(recipe: Recipe, cache: Path, split: str) -> list[ManifestEntry]:
    path = manifest_path(recipe, cache)
    found = [entry for entry in manifest.read(path, split) if entry.texts]
    if not found:
        raise MultifoldError(f"{path} has no item with texts in the split {split!r}")
    return found


def held_out(
    recipe: Recipe, cache: Path, split: str, most: int
) -> tuple[list[ManifestEntry], UInt8[np.ndarray, "i v h w 3"]]:
    """Held-out items of a split, and their views."""
    items = entries(recipe, cache, split)[:most]
    return items, views(recipe, items, cache)


def views(recipe: Recipe, items: Sequence[ManifestEntry], cache: Path) -> UInt8[np.ndarray, "i v h w 3"]:
    return load_views(items, view_spec(recipe), image_spec(recipe), cache)


def reader(recipe: Recipe, tokenizer: TrainedTokenizer) -> Tokenizer:
    """The tokenizer of the recipe's text tower."""
    return Tokenizer(tokenizer.definition, text_spec(recipe, tokenizer))


def groups(
    recipe: Recipe, items: Sequence[ManifestEntry], tokenizer: TrainedTokenizer, cache: Path
) -> TrainingItems:
    """The items and tokens that the loop draws its batches from."""
    tokens = reader(recipe, tokenizer)
    ends = np.cumsum([len(entry.texts) for entry in items]).tolist()
    rows = list(zip([0, *ends[:-1]], ends, strict=True))
    ids = [entry.id for entry in items]
    texts = tokens([text for entry in items for text in entry.texts]).ids
    pixels = training_views(items, view_spec(recipe), image_spec(recipe), cache)
    if not recipe.train.judged:
        return TrainingItems(pixels, texts, rows, ids)
    judged = {
        place: [first + row for row, text in enumerate(entry.texts) if text in feedback.good_texts(entry)]
        for place, (entry, (first, _)) in enumerate(zip(items, rows, strict=True))
        if feedback.good_texts(entry)
    }
    often = feedback.sample_places(items, recipe.train.judged)
    return TrainingItems(pixels, texts, rows, ids, often, feedback.rival_places(items), judged)


def image_spec(recipe: Recipe) -> ImageSpec:
    return towers.image_spec(recipe.image)


def text_spec(recipe: Recipe, tokenizer: TrainedTokenizer) -> TextSpec:
    return towers.text_spec(recipe.text, tokenizer)


def view_spec(recipe: Recipe) -> ViewSpec:
    wanted = recipe.views
    return ViewSpec(
        rig=wanted.rig,
        size=wanted.size,
        background=wanted.background,
        up=wanted.up,
        views=len(rig(wanted.rig).poses),
        renderer=LOOK,
    )


def manifest_path(recipe: Recipe, cache: Path) -> Path:
    """The recipe's manifest; that of shards, and the furniture set, are generated on demand."""
    data = recipe.data
    if data.manifest is not None:
        return (
            shard_manifest(data.manifest, cache) if is_shard_pattern(data.manifest) else Path(data.manifest)
        )
    name = ["furniture", data.furniture_items, data.furniture_seed, *sorted(data.furniture_unsaid)]
    folder = cache / "-".join(map(str, name))
    path = folder / "manifest.jsonl"
    if not path.exists():
        order = FurnitureOrder(folder, data.furniture_seed, unsaid=data.furniture_unsaid)
        write_furniture(order, data.furniture_items, workers=cores())
    return path
