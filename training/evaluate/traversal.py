"""Traversals: captions on the way to the root, means over many things, distances of each side to the root."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from tqdm import tqdm

from multifold import manifest
from multifold.analysis import traversal
from multifold.analysis.traversal import CaptionPool, distances_to_root, traverse
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import STEPS_TO_ROOT, Feature, Features, pool_mean
from training.data import caption_pools
from training.data.views import load_views
from training.evaluate import figures
from training.evaluate.figures import ShareHistogram
from training.evaluate.report import ReportFigure, ReportSection, report_html

Widths: TypeAlias = Sequence[float | None]  # of the cones; none: without cones
Outcome: TypeAlias = tuple[dict[str, Any], list[ReportSection]]  # numbers, and the report
STRIPS = 12  # paths of a manifest that are drawn
ENDS = ("root", "mean")


def captions_met(
    encoder: Encoder, features: Features, pool: CaptionPool, widths: Widths, steps: int = STEPS_TO_ROOT
) -> dict[float | None, list[int]]:
    """How many captions are between each thing and the root, for each width of the cones."""
    traversed = [traverse(encoder, feature, pool, steps, widths) for feature in features]
    return {k: [len(one[place].met) for one in traversed] for place, k in enumerate(widths)}


def histograms(
    encoder: Encoder, sides: Mapping[str, Features], bins: int = figures.BINS, root: Feature | None = None
) -> dict[str, ShareHistogram]:
    """The distances of each side to the root, or to another feature, in bins that all sides share."""
    apart = {side: distances_to_root(encoder, features, root) for side, features in sides.items()}
    return figures.share_histograms(apart, low=0.0, bins=bins)


def run(args: argparse.Namespace) -> int:
    """What `multifold generalise` does for one thing or for a manifest."""
    encoder = open_encoder(args.bundle)
    texts = encoder.bundle.pool() if args.captions is None else caption_pools.load_pool(args.captions)
    if not texts:
        raise MultifoldError(f"bundle {encoder.bundle.name} has no captions to meet; name some: --captions")
    pool = traversal.caption_pool(encoder, texts)
    widths = [None, *args.widths]
    report = _traverse_one if args.manifest is None else _traverse_manifest
    numbers, sections = report(args, encoder, pool, widths)
    if args.json is not None:
        text = json.dumps({"bundle": str(args.bundle), **numbers}, indent=2, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.html is not None:
        args.html.write_text(report_html("Towards the root", sections), encoding="utf-8")
    return 0


def _traverse_one(args: argparse.Namespace, encoder: Encoder, pool: CaptionPool, widths: Widths) -> Outcome:
    picture: Image.Image | None = None
    if args.text is not None:
        feature: Feature = encoder.texts([args.text]).features[0]
    else:
        images = () if args.image is None else (args.image,)
        views = np.array(_load_views(args, encoder, [ManifestEntry("it", images=images, mesh=args.mesh)])[0])
        feature = pool_mean(encoder.pixels(views))
        picture = Image.fromarray(views[0])
    paths = traverse(encoder, feature, pool, args.steps, widths)
    title = args.text or str(args.image or args.mesh)
    for path in paths:
        print(f"{title}{'' if path.k is None else f', cones of width {path.k:g}'}")
        for caption in path.met:
            print(f"  {caption.position:.2f}  {caption.text}")
        print(f"  1.00  {traversal.ROOT_LABEL}")
    strips = [ReportFigure(figures.traversal_strip(path, picture, title)) for path in paths]
    return {"query": title, "paths": [asdict(path) for path in paths]}, [ReportSection("Paths", strips)]


def _traverse_manifest(
    args: argparse.Namespace, encoder: Encoder, pool: CaptionPool, widths: Widths
) -> Outcome:
    entries = [one for one in manifest.read(args.manifest, args.split) if one.mesh or one.images][
        : args.items
    ]
    if not entries:
        raise MultifoldError(f"{args.manifest} has no item with something to see in that split")
    views = _load_views(args, encoder, entries)
    bar = tqdm(views, desc="items", unit="item", disable=None)
    features = np.stack([pool_mean(encoder.pixels(np.array(item))) for item in bar])
    counts = captions_met(encoder, features, pool, widths, args.steps)
    means = {k: round(float(np.mean(met)), 3) for k, met in counts.items()}
    print(f"captions met on the way to the root, means of {len(entries)} items, {len(pool.texts)} captions:")
    for k, mean in means.items():
        print(f"  {_cones(k)}: {mean}")
    sides = {"shape": features, "pool": pool.features}
    if captions := [text for one in entries for text in one.texts]:
        sides["text"] = encoder.texts(captions).features
    distances = histograms(encoder, sides)
    middle: Feature = np.concatenate([one for side, one in sides.items() if side != "pool"]).mean(axis=0)
    to_middle = histograms(encoder, sides, root=middle)
    off = float(distances_to_root(encoder, middle[None])[0])
    for end, found in (("the root", distances), (f"their mean, which is {off:.4f} from the root", to_middle)):
        print(f"distance to {end}:")
        for side, one in found.items():
            print(f"  {side}: {one.mean:.4f} ± {one.deviation:.4f}")
    numbers: dict[str, Any] = {
        "items": len(entries),
        "pool": len(pool.texts),
        "met": {"any" if k is None else f"{k:g}": mean for k, mean in means.items()},
        "distances": {side: asdict(one) for side, one in distances.items()},
        "mean": {"distance": off, "distances": {side: asdict(one) for side, one in to_middle.items()}},
    }
    strips = []
    for feature, item, entry in zip(features[:STRIPS], views, entries, strict=False):
        path = traverse(encoder, feature, pool, args.steps, widths)[-1]
        picture = Image.fromarray(np.array(item[0]))
        strips.append(ReportFigure(figures.traversal_strip(path, picture, entry.id)))
    charts = (ReportFigure(figures.histogram_chart(found)) for found in (distances, to_middle))
    bars = ReportFigure(figures.counts_chart({_cones(k): met for k, met in counts.items()}))
    return numbers, [
        *(ReportSection(f"Distance to the {end}", [chart]) for end, chart in zip(ENDS, charts, strict=True)),
        ReportSection("Captions met", [bars]),
        ReportSection("Paths", strips),
    ]


def _cones(k: float | None) -> str:
    return "without cones" if k is None else f"K = {k:g}"


def _load_views(args: argparse.Namespace, encoder: Encoder, entries: list[ManifestEntry]) -> np.ndarray:
    return load_views(entries, encoder.bundle.views, encoder.bundle.image, args.cache)
