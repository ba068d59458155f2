"""Add explain graphs, a pool of captions for traversals, and the quality of each explanation to a bundle.

    multifold equip bundles/furniture --pool furniture
    multifold equip bundles/furniture --pool furniture --measure furniture/manifest.jsonl

`multifold export` adds the graphs already; this command is for existing bundles, and for quality: --measure
deletes from pictures and captions of a manifest what each method calls important, and keeps the figures in
the bundle; the service then explains by the best method. The vectors, the vector_id and all other files of
the bundle stay as they are.
"""

import argparse
from pathlib import Path

from multifold.bundle import bundle as bundles
from multifold.errors import needs_extra


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pool", help="captions for traversals: 'furniture', 'everyday' or a file of lines")
    parser.add_argument("--measure", type=Path, metavar="MANIFEST", help="items with pictures and texts")
    parser.add_argument("--split", help="of the manifest")
    parser.add_argument("--most", type=int, default=100, help="items to measure with")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from training.export.explain_graphs import equip_bundle, write_bundle_json
    from multifold.analysis.explanation import METHOD_QUALITY_FILE
    from training.data.caption_pools import load_pool
    from training.evaluate.explanation import measure_methods

    pool = load_pool(args.pool) if args.pool else ()
    sealed = equip_bundle(bundles.load(args.bundle), pool)
    if args.measure is not None:
        areas = measure_methods(args.bundle, args.measure, args.split, args.most, args.cache)
        write_bundle_json(sealed, METHOD_QUALITY_FILE, areas)
        sealed = bundles.save(sealed)
    print(f"bundle {sealed.bundle_id} (vectors {sealed.vector_id}) in {args.bundle}")
    return 0
