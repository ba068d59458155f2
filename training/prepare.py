"""From a recipe to what the loop and the evaluation read: entries, views, captions, tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multifold import manifest
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.point_groups import PointSpec
from multifold.bundle.tokenizer import Tokenizer
from multifold.errors import MultifoldError
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.cameras import rig
from renderers.contracts import LOOK
from training import towers
from training.batches import TrainingItems
from training.data import feedback
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.points import ItemPoints, load_points
from training.data.sources.imported import MOST_BROKEN
from training.data.sources.webdataset import is_shard_pattern, shard_manifest
from training.data.views import (
    ItemViews,
    LazyViews,
    VisibleItems,
    load_views,
    training_items,
    visible_items,
)
from training.recipes.schema import Recipe
from training.towers import bundled
from training.towers.tokenizers import TrainedTokenizer


def entries(recipe: Recipe, cache: Path, split: str) -> list[ManifestEntry]:
    path = manifest_path(recipe, cache)
    items = [entry for entry in manifest.read(path, split) if entry.texts]
    if not items:
        raise MultifoldError(f"{path} has no item with texts in the split {split!r}")
    return items


def held_out(recipe: Recipe, cache: Path, split: str, most: int) -> tuple[list[ManifestEntry], ItemViews]:
    items = entries(recipe, cache, split)[:most]
    seen = visible_items(items, view_spec(recipe), towers.image_spec(recipe.image), cache)
    for problem in seen.problems.values():
        print(f"left out of {split}: {problem}")
    return [*seen.entries], np.asarray(seen.views)


def training_set(recipe: Recipe, cache: Path, strict: bool, problems: Path | None) -> VisibleItems:
    """The items to learn from; the others are named in a file, and refused if they are many or `strict`."""
    items = entries(recipe, cache, recipe.data.train_split)
    seen = training_items(items, view_spec(recipe), towers.image_spec(recipe.image), cache)
    if count := len(seen.problems):
        first = next(iter(seen.problems.values()))
        if strict or count > MOST_BROKEN * len(items):
            raise MultifoldError(f"{count} of {len(items)} items cannot be read. The first: {first}")
        if problems is not None:
            problems.write_text("\n".join(seen.problems.values()) + "\n", encoding="utf-8")
    return seen


def views(recipe: Recipe, items: Sequence[ManifestEntry], cache: Path) -> ItemViews:
    return load_views(items, view_spec(recipe), towers.image_spec(recipe.image), cache)


def reader(recipe: Recipe, tokenizer: TrainedTokenizer) -> Tokenizer:
    return Tokenizer(tokenizer.definition, towers.text_spec(recipe.text, tokenizer))


def groups(
    recipe: Recipe,
    items: Sequence[ManifestEntry],
    tokenizer: TrainedTokenizer,
    cache: Path,
    views: ItemViews | LazyViews | None = None,
) -> TrainingItems:
    """The items and tokens that the loop draws its batches from."""
    tokens = reader(recipe, tokenizer)
    ends = np.cumsum([len(entry.texts) for entry in items]).tolist()
    rows = list(zip([0, *ends[:-1]], ends, strict=True))
    ids = [entry.id for entry in items]
    texts = tokens([text for entry in items for text in entry.texts])
    if views is None:
        views = training_items(items, view_spec(recipe), towers.image_spec(recipe.image), cache).all_views()
    extra: dict[str, Any] = {"cut": sum(texts.cut)}
    if (spec := points_of(recipe)) is not None:
        extra |= {"points": points(recipe, items, cache), "directions": spec.directions}
    if not recipe.train.judged:
        return TrainingItems(views, texts.ids, rows, ids, **extra)
    judged = {
        place: [first + row for row, text in enumerate(entry.texts) if text in feedback.good_texts(entry)]
        for place, (entry, (first, _)) in enumerate(zip(items, rows, strict=True))
        if feedback.good_texts(entry)
    }
    often = feedback.sample_places(items, recipe.train.judged)
    rivals = feedback.rival_places(items)
    return TrainingItems(views, texts.ids, rows, ids, often, rivals, judged, **extra)


def points(recipe: Recipe, items: Sequence[ManifestEntry], cache: Path) -> ItemPoints | None:
    """The points of items, as the recipe's point tower reads them; none without one."""
    spec = points_of(recipe)
    return None if spec is None else load_points(items, spec, recipe.views.up, cache)


def points_of(recipe: Recipe) -> PointSpec | None:
    """How a recipe with a point tower wants meshes sampled and their points grouped."""
    return None if recipe.points is None else towers.point_spec(recipe.points)


def view_spec(recipe: Recipe) -> ViewSpec:
    if (bundle := bundled.bundle_of(recipe)) is not None:
        own = recipe.heads is not None  # then shapes are drawn as the bundle says, whatever it is
        return bundled.opened(bundle).bundle.views if own else bundled.bundle_views(recipe, bundle)
    return ViewSpec(**recipe.views.model_dump(), views=len(rig(recipe.views.rig).poses), renderer=LOOK)


def manifest_path(recipe: Recipe, cache: Path) -> Path:
    """The recipe's manifest; that of shards, and the furniture set, are generated on demand."""
    data = recipe.data
    if data.manifest is not None:
        shards = is_shard_pattern(data.manifest)
        return shard_manifest(data.manifest, cache) if shards else Path(data.manifest)
    name = ["furniture", data.furniture_items, data.furniture_seed]
    folder = cache / "-".join(map(str, name))
    path = folder / "manifest.jsonl"
    if not path.exists():
        print(f"making {data.furniture_items:,} pieces of furniture, once: kept in {folder}")
        order = FurnitureOrder(folder, data.furniture_seed)
        write_furniture(order, data.furniture_items, workers=cores())
    return path
