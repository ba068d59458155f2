"""Give a bundle what it explains and walks with: explain graphs, a pool of captions, how well it explains.

    multifold equip bundles/furniture --pool furniture
    multifold equip bundles/furniture --pool furniture --measure furniture/manifest.jsonl

What `multifold export` writes is equipped already; this is for bundles that exist, and for figures: --measure
deletes what each method calls important, from pictures and captions of a manifest, and keeps the figures in
the bundle, and the service then explains by the best method. The vectors of the bundle, and so its vector_id,
stay what they are, and so do its other files.
"""

import argparse
from pathlib import Path

import numpy as np

from multifold import manifest
from multifold.analysis.explanation import METHOD_QUALITY_FILE, Explainer
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from training.data import caption_pools
from training.data.views import load_views
from training.evaluate.explanation import delete_cells, delete_words, matching_pairs
from training.export.explain_graphs import equip_bundle, write_bundle_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pool", help="captions to meet: 'furniture', 'everyday' or a file of lines")
    parser.add_argument("--measure", type=Path, metavar="MANIFEST", help="items with pictures and texts")
    parser.add_argument("--split", help="of the manifest")
    parser.add_argument("--most", type=int, default=100, help="items to measure with")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")


def run(args: argparse.Namespace) -> int:
    """Write what is asked for, seal the bundle again, say what it weighs."""
    pool = caption_pools.load_pool(args.pool) if args.pool else ()
    sealed = equip_bundle(bundles.load(args.bundle), pool)
    if args.measure is not None:
        _measure(args, sealed)
        sealed = bundles.save(sealed)
    print(f"bundle {sealed.bundle_id} (vectors {sealed.vector_id}) in {args.bundle}")
    return 0


def _measure(args: argparse.Namespace, bundle: Bundle) -> None:
    explainer = Explainer(open_encoder(args.bundle))
    shown = [one for one in manifest.read(args.measure, args.split) if one.texts and (one.mesh or one.images)]
    if not (entries := shown[: args.most]):
        raise MultifoldError(f"{args.measure} has no item with something to see and something said of it")
    views = load_views(entries, bundle.views, bundle.image, args.cache)
    places = np.random.default_rng(0).integers(0, views.shape[1], len(entries))
    seen = [np.array(item[place]) for item, place in zip(views, places, strict=True)]
    found = matching_pairs(explainer.encoder, seen, [one.texts[0] for one in entries])
    told = {}
    for side, measured in (("image", delete_cells), ("text", delete_words)):
        areas = measured(explainer, found).areas
        print(
            f"{side}: score left of {len(found)} matches, " + ", ".join(f"{k} {v}" for k, v in areas.items())
        )
        told[side] = {name: areas[name] for name in explainer.methods("text" if side == "text" else "image")}
    write_bundle_json(bundle, METHOD_QUALITY_FILE, told)
