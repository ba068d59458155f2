"""Turn a checkpoint into a bundle that checks itself.

multifold export runs/demo/checkpoint.pt bundles/demo
"""

import argparse
from importlib.metadata import version
from pathlib import Path

from multifold.bundle import file_hash
from training import checkpoint, prepare
from training.export import export


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("bundle", type=Path, help="folder to write the bundle into")
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
    bundle = export(trained, views, [entry.texts for entry in items], args.bundle, provenance)
    print((args.bundle / "report.md").read_text(encoding="utf-8"))
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
    return 0
