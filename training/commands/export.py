"""Turn a checkpoint, open weights, or a bundle's smaller variant into a bundle that checks itself.

    multifold export runs/demo/checkpoint.pt bundles/demo
    multifold export runs/next/checkpoint.pt bundles/next --against bundles/demo
    multifold export bundles/demo bundles/demo-int8 --variant int8
    multifold export open_clip:ViT-B-16/openai bundles/clip --held-out things.jsonl

It is measured on held-out items: those of its recipe, or the test split of another manifest (--held-out).
With --against both bundles answer them; one that finds less is refused, unless --force is said.
It brings the graphs that explain its matches, unless --unexplained is said; --pool adds captions to meet.
"""

import argparse
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, file_hash
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training import checkpoint, prepare
from training.checkpoint import Checkpoint
from training.data import caption_pools
from training.data.views import load_views
from training.evaluate import calibrate
from training.export import open_weights, variants
from training.export.bundle import export_bundle
from training.export.explain_graphs import equip_bundle
from training.recipes import schema
from training.recipes.schema import DataSection, Recipe
from training.retrieval import directions
from training.retrieval.comparison import RivalEncoder

FURNITURE = 600  # pieces, of which a tenth is held out: what open weights are measured on by default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "source", help="a checkpoint; open_clip:MODEL/TAG, …/FILE, open_clip:FOLDER; a bundle"
    )
    parser.add_argument("bundle", type=Path, help="folder to write the bundle into")
    parser.add_argument("--held-out", type=Path, metavar="MANIFEST", help="measure it on this test split")
    parser.add_argument("--against", type=Path, metavar="OLD", help="a bundle that must not be better")
    parser.add_argument("--force", action="store_true", help="write it even if OLD finds more")
    parser.add_argument("--variant", choices=variants.VARIANTS, help="of a bundle: a smaller one")
    parser.add_argument("--tolerance", type=float, metavar="RECALL", help="what a variant may lose")
    parser.add_argument(
        "--tokenizer", type=Path, help="open weights that do not read as CLIP: tokenizer.json"
    )
    parser.add_argument("--unexplained", action="store_true", help="without graphs that explain matches")
    parser.add_argument("--pool", help="captions to meet: 'furniture', 'everyday' or a file of lines")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/cache"), help="rendered views and generated sets"
    )


def run(args: argparse.Namespace) -> int:
    """Export, evaluate on held-out items, print the report."""
    is_bundle = (Path(args.source) / bundles.DESCRIPTION_FILE).is_file()
    if is_bundle != (args.variant is not None):
        raise MultifoldError("--variant goes with a bundle as its source, and a bundle with --variant")
    bundle = _variant(args) if is_bundle else _encoder(args)
    print(bundle.path("report.md").read_text(encoding="utf-8"))
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
    return 0


def _variant(args: argparse.Namespace) -> Bundle:
    original = open_encoder(Path(args.source))
    followed = schema.parse_recipe(original.bundle.provenance["recipe"], args.source)
    items = held_out_items(_measured_on(followed, args.held_out), args)
    print(f"writing {original.bundle.name} as {args.variant}, measuring it on {len(items)} held-out items")
    views = bundle_views(original.bundle, items, args.cache)
    captions = [entry.texts for entry in items]
    return variants.write_variant(original, args.variant, views, captions, args.bundle, args.tolerance)


def _encoder(args: argparse.Namespace) -> Bundle:
    trained, origin = _open_weights(args) if args.source.startswith(open_weights.SCHEME) else _trained(args)
    pool = caption_pools.load_pool(args.pool) if args.pool else ()
    measured = _measured_on(trained.recipe, args.held_out)
    items = held_out_items(measured, args)
    provenance = {
        "code": version("multifold"),
        **origin,
        "data": file_hash(prepare.manifest_path(measured, args.cache)),
        "seed": measured.train.seed,
    }
    print(f"exporting {measured.name}, measuring it on {len(items)} held-out items")
    against = None if args.against is None else load_rival(args.against, items, args.cache)
    views, captions = prepare.views(measured, items, args.cache), [entry.texts for entry in items]
    explained = not args.unexplained
    made = export_bundle(trained, views, captions, args.bundle, provenance, against, args.force, explained)
    made = equip_bundle(made, pool, explained)
    about = {"data": provenance["data"], "split": measured.data.test_split, "items": len(items)}
    return calibrate.calibrate_bundle(made.folder, items, args.cache, **about)


def _trained(args: argparse.Namespace) -> tuple[Checkpoint, dict[str, str]]:
    path = Path(args.source)
    return checkpoint.load_checkpoint(path), {"checkpoint": file_hash(path)}


def _open_weights(args: argparse.Namespace) -> tuple[Checkpoint, dict[str, str]]:
    data = (
        DataSection(furniture_items=FURNITURE)
        if args.held_out is None
        else DataSection(manifest=str(args.held_out))
    )
    return open_weights.load_published(args.source, args.tokenizer, data), {"weights": args.source}


def _measured_on(followed: Recipe, manifest: Path | None) -> Recipe:
    if manifest is None:
        return followed
    data = followed.data.model_copy(update={"manifest": str(manifest)})
    return followed.model_copy(update={"data": data})


def held_out_items(followed: Recipe, args: argparse.Namespace) -> list[ManifestEntry]:
    """Items that nobody learned from."""
    data = followed.data
    return prepare.entries(followed, args.cache, data.test_split)[: data.test_items]


def bundle_views(bundle: Bundle, items: list[ManifestEntry], cache: Path) -> UInt8[np.ndarray, "i v h w 3"]:
    """Items as a bundle sees them."""
    return load_views(items, bundle.views, bundle.image, cache)


def load_rival(folder: Path, items: list[ManifestEntry], cache: Path) -> RivalEncoder:
    """What the bundle in use makes of the same items."""
    encoder = open_encoder(folder)
    captions = [entry.texts for entry in items]
    observed = directions.encode(encoder, bundle_views(encoder.bundle, items, cache), captions)
    bundle = encoder.bundle
    return RivalEncoder(bundle.name, bundle.bundle_id, directions.directions(encoder, observed))
