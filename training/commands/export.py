"""Turn a checkpoint into a bundle that checks itself.

    multifold export runs/demo/checkpoint.pt bundles/demo
    multifold export runs/next/checkpoint.pt bundles/next --against bundles/demo

With --against both bundles answer the same held-out items; one that finds less is refused, unless --force is
said.
"""

import argparse
from importlib.metadata import version
from pathlib import Path

from multifold.bundle import file_hash
from multifold.canary import open_encoder
from multifold.manifest import Entry
from training import checkpoint, prepare
from training.data.views import load_views
from training.evaluate import retrieval
from training.export import export
from training.promotion import Rival


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("bundle", type=Path, help="folder to write the bundle into")
    parser.add_argument("--against", type=Path, metavar="OLD", help="a bundle that must not be better")
    parser.add_argument("--force", action="store_true", help="write it even if OLD finds more")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/cache"), help="rendered views and generated sets"
    )


def run(args: argparse.Namespace) -> int:
    """Export, evaluate on the test split, print the report."""
    trained = checkpoint.load(args.checkpoint)
    recipe = trained.recipe
    items, views = prepare.held_out(recipe, args.cache, recipe.data.test_split, recipe.data.test_items)
    provenance = {
        "code": version("multifold"),
        "checkpoint": file_hash(args.checkpoint),
        "data": file_hash(prepare.manifest_path(recipe, args.cache)),
        "seed": recipe.train.seed,
    }
    print(f"exporting {recipe.name}, measuring it on {len(items)} held-out items")
    against = None if args.against is None else rival(args.against, items, args.cache)
    captions = [entry.texts for entry in items]
    bundle = export(trained, views, captions, args.bundle, provenance, against, args.force)
    print((args.bundle / "report.md").read_text(encoding="utf-8"))
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
    return 0


def rival(folder: Path, items: list[Entry], cache: Path) -> Rival:
    """What the bundle in use makes of the same items, seen as it sees them."""
    encoder = open_encoder(folder)
    views = load_views(items, encoder.bundle.views, encoder.bundle.image, cache)
    observed = retrieval.encode(encoder, views, [entry.texts for entry in items])
    return Rival(encoder.bundle.name, encoder.bundle.bundle_id, retrieval.directions(encoder, observed))
