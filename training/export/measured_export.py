"""Export from a checkpoint, open weights or another bundle, measured on held-out items."""

import argparse
from importlib.metadata import version
from pathlib import Path

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, file_hash
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training import checkpoint, prepare
from training.data import caption_pools
from training.data.points import load_points
from training.data.views import load_views
from training.export import open_weights, variants
from training.export.beside import add_trained_points
from training.export.bundle import export_bundle
from training.recipes import schema
from training.recipes.schema import DataSection, Recipe
from training.retrieval import comparison, directions
from training.retrieval.comparison import RivalEncoder
from training.towers import bundled

FURNITURE = DataSection(furniture_items=600)  # a tenth is held out: what open weights are measured on


def export_variant(args: argparse.Namespace) -> Bundle:
    original = open_encoder(Path(args.source))
    recipe = schema.parse_recipe(original.bundle.provenance["recipe"], args.source)
    items = _held_out_items(_measured_on(recipe, args.held_out), args.cache)
    print(f"writing {original.bundle.name} as {args.variant}, measuring it on {len(items)} held-out items")
    views = load_views(items, original.bundle.views, original.bundle.image, args.cache)
    captions = [entry.texts for entry in items]
    return variants.write_variant(original, args.variant, views, captions, args.bundle, args.tolerance)


def export_encoder(args: argparse.Namespace) -> Bundle:
    """The bundle of a checkpoint or of open weights."""
    if args.source.startswith(open_weights.SCHEME):
        data = FURNITURE if args.held_out is None else DataSection(manifest=str(args.held_out))
        trained = open_weights.load_published(args.source, args.tokenizer, data)
        origin = {"weights": args.source}
    else:
        trained = checkpoint.load_checkpoint(Path(args.source))
        origin = {"checkpoint": file_hash(Path(args.source))}
    pool = caption_pools.load_pool(args.pool) if args.pool else ()
    recipe = _measured_on(trained.recipe, args.held_out)
    beside = bundled.bundle_of(recipe)
    if beside is not None and args.against is not None:
        raise MultifoldError(
            f"points beside {beside} are compared with the same without: leave --against out"
        )
    items = _held_out_items(recipe, args.cache)
    data_hash = file_hash(prepare.manifest_path(recipe, args.cache))
    provenance = {"code": version("multifold"), **origin, "data": data_hash, "seed": recipe.train.seed}
    print(f"exporting {recipe.name}, measuring it on {len(items)} held-out items")
    if args.against is not None:
        comparison.refuse_few(len(items), args.difference, args.force)
    rival = None if args.against is None else _load_rival(args.against, items, args.cache)
    views = prepare.views(recipe, items, args.cache)
    captions = [entry.texts for entry in items]
    groups = prepare.points(recipe, items, args.cache)
    if beside is not None:
        provenance["recipe"] = recipe.model_dump(mode="json")
        original = bundles.load(Path(beside))
        return add_trained_points(
            trained, original, args.bundle, provenance, views, captions, groups, args.force
        )
    bundle = export_bundle(trained, views, captions, args.bundle, provenance, rival, args.force, groups)
    return caption_pools.add_pool(bundle, pool) if pool else bundle


def _measured_on(recipe: Recipe, manifest: Path | None) -> Recipe:
    if manifest is None:
        return recipe
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"manifest": str(manifest)})})


def _held_out_items(recipe: Recipe, cache: Path) -> list[ManifestEntry]:
    return prepare.entries(recipe, cache, recipe.data.test_split)[: recipe.data.test_items]


def _load_rival(folder: Path, items: list[ManifestEntry], cache: Path) -> RivalEncoder:
    """The features that the bundle in use has of the same items."""
    encoder = open_encoder(folder)
    bundle = encoder.bundle
    views = load_views(items, bundle.views, bundle.image, cache)
    points = None
    if bundle.points is not None:
        points = encoder.grouped_points(load_points(items, bundle.points, bundle.views.up, cache))
    observed = directions.encode(encoder, views, [entry.texts for entry in items], points)
    return RivalEncoder(bundle.name, bundle.bundle_id, directions.served_directions(encoder, observed))
