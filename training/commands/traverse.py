"""Walk from a picture, a text or a mesh to the root of a bundle, and say which captions are met on the way.

    multifold traverse bundles/furniture --text "a red chair with four black legs"
    multifold traverse bundles/furniture --image photo.jpg --html strip.html
    multifold traverse bundles/mine --manifest furniture/manifest.jsonl --split test --widths 0.1 0.3 0.8

Captions are the bundle's own pool, or --captions: a file of lines, 'furniture' or 'everyday'. Widths (K) of
the cones are for Euclidean and Lorentz geometries: only captions whose cone holds the step count. Of a
manifest the means are told, how far each side lies from the root and, with --tree, how wrong its wrong
classes are.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from multifold import manifest
from multifold.analysis import traversal
from multifold.analysis.hierarchy import read_tree
from multifold.analysis.traversal import CaptionPool
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Feature, pool_mean
from training.data import caption_pools
from training.data.views import load_views
from training.evaluate import figures, report
from training.evaluate.traversal import hierarchy, histograms, mean_captions_met

MOST = 300
SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("bundle", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text")
    what.add_argument("--image", type=Path)
    what.add_argument("--mesh", type=Path)
    what.add_argument("--manifest", type=Path)
    parser.add_argument("--split", help="of the manifest")
    parser.add_argument("--most", type=int, default=MOST, help="items of the manifest")
    parser.add_argument("--captions", help="a file of lines, or 'furniture', 'everyday'")
    parser.add_argument("--steps", type=int, default=traversal.STEPS)
    parser.add_argument("--widths", type=float, nargs="+", default=[], metavar="K", help="of the cones")
    parser.add_argument("--tree", type=Path, help="classes and what they are kinds of, as JSON")
    parser.add_argument("--class-key", default="kind", help="where an item's meta has its class")
    parser.add_argument("--json", type=Path, help="write the paths and the figures here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")


def run(args: argparse.Namespace) -> int:
    """Walk, tell, write."""
    encoder = open_encoder(args.bundle)
    texts = encoder.bundle.pool() if args.captions is None else caption_pools.load_pool(args.captions)
    if not texts:
        raise MultifoldError(
            f"bundle {encoder.bundle.name} brings no captions to meet; name some: --captions"
        )
    pool = traversal.caption_pool(encoder, texts)
    widths: list[float | None] = [None, *args.widths]
    if args.manifest is not None:
        return _many(args, encoder, pool, widths)
    feature, face = _one(args, encoder)
    paths = traversal.traverse(encoder, feature, pool, args.steps, widths)
    title = args.text or str(args.image or args.mesh)
    for path in paths:
        print(f"{title}{'' if path.k is None else f', cones of width {path.k:g}'}")
        for met in path.met:
            print(f"  {met.position:.2f}  {met.text}")
        print(f"  1.00  {traversal.ROOT_LABEL}")
    strips = [report.ReportFigure(figures.traversal_strip(path, face, title)) for path in paths]
    told = {"query": title, "paths": [asdict(path) for path in paths]}
    _write(args, told, [report.ReportSection("Paths", strips)])
    return 0


def _one(args: argparse.Namespace, encoder: Encoder) -> tuple[Feature, Image.Image | None]:
    """The feature of the one thing asked about, and what it looks like."""
    if args.text is not None:
        return encoder.texts([args.text]).features[0], None
    images = () if args.image is None else (args.image,)
    views = _seen(args, encoder, [ManifestEntry("it", images=images, mesh=args.mesh)])
    return pool_mean(encoder.pixels(np.array(views[0]))), Image.fromarray(np.array(views[0][0]))


def _many(args: argparse.Namespace, encoder: Encoder, pool: CaptionPool, widths: list[float | None]) -> int:
    entries = [one for one in manifest.read(args.manifest, args.split) if one.mesh or one.images][: args.most]
    if not entries:
        raise MultifoldError(f"{args.manifest} has no item with something to see in that split")
    views = _seen(args, encoder, entries)
    seen = tqdm(views, desc="items", unit="item", disable=None)
    features = np.stack([pool_mean(encoder.pixels(np.array(item))) for item in seen])
    told: dict[str, Any] = {"items": len(entries), "pool": len(pool.texts)}
    met = mean_captions_met(encoder, features, pool, widths, args.steps)
    told["met"] = {"any" if k is None else f"{k:g}": round(mean, 3) for k, mean in met.items()}
    print(
        f"captions met on the way to the root, mean of {len(entries)} items and {len(pool.texts)} captions:"
    )
    for k, mean in told["met"].items():
        print(f"  {'without cones' if k == 'any' else f'K = {k}'}: {mean}")
    said = [text for one in entries for text in one.texts]
    sides = {"shape": features, "pool": pool.features}
    if said:
        sides["text"] = encoder.texts(said).features
    far = histograms(encoder, sides)
    print("distance to the root:")
    for side, one in far.items():
        print(f"  {side}: {one.mean:.4f} ± {one.deviation:.4f}")
    told["distances"] = {side: asdict(one) for side, one in far.items()}
    if args.tree is not None:
        true = [str(one.meta.get(args.class_key)) for one in entries]
        told["hierarchy"] = asdict(hierarchy(encoder, features, true, read_tree(args.tree)))
        print("classes:", ", ".join(f"{name} {value:.3f}" for name, value in told["hierarchy"].items()))
    paths = [traversal.traverse(encoder, one, pool, args.steps, widths)[-1] for one in features[:SHOWN]]
    faces = [Image.fromarray(np.array(item[0])) for item in views[:SHOWN]]
    strips = [
        report.ReportFigure(figures.traversal_strip(path, face, one.id))
        for path, face, one in zip(paths, faces, entries, strict=False)
    ]
    chart = report.ReportFigure(figures.distances_chart(far))
    _write(
        args,
        told,
        [report.ReportSection("Distance to the root", [chart]), report.ReportSection("Paths", strips)],
    )
    return 0


def _seen(args: argparse.Namespace, encoder: Encoder, entries: list[ManifestEntry]) -> np.ndarray:
    return load_views(entries, encoder.bundle.views, encoder.bundle.image, args.cache)


def _write(args: argparse.Namespace, told: dict[str, Any], sections: list[report.ReportSection]) -> None:
    if args.json is not None:
        text = json.dumps({"bundle": str(args.bundle), **told}, indent=2, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.html is not None:
        args.html.write_text(report.report_html("Towards the root", sections), encoding="utf-8")
