"""Which of several encoders finds a user's own pictures best by the user's own captions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from tqdm import tqdm

from app.pull.published_files import PullError
from multifold import manifest
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import ImageError, decode
from multifold.files import folder as folders
from multifold.manifest import ManifestEntry
from multifold.metrics import bootstrap, ranks, recall_at_k
from multifold.types import pool_mean

COMPARED_ITEMS = 400
LEAST_ITEMS = 10
CUTS = (1, 5, 10)


@dataclass(frozen=True)
class CaptionedPictures:
    """Items that have pictures and captions, the captions one after the other."""

    pictures: tuple[tuple[Path, ...], ...]
    captions: tuple[str, ...]
    owners: Int64[np.ndarray, " q"]  # the item of each caption


def read_captioned(source: Path) -> CaptionedPictures:
    """The captioned pictures of a folder or a manifest; of many items, some from every part of it."""
    entries = [one for one in _entries(source) if one.images and one.texts]
    step = max(1, -(-len(entries) // COMPARED_ITEMS))
    kept = [(entry, readable) for entry in entries[::step] if (readable := _readable(entry.images))]
    if len(kept) < LEAST_ITEMS:
        found = f"{source} has {len(kept)} pictures with captions"
        raise PullError(f"{found}; a comparison needs {LEAST_ITEMS} at least, better 100")
    captions = [(text, number) for number, (entry, _) in enumerate(kept) for text in entry.texts]
    texts, owners = zip(*captions, strict=True)
    return CaptionedPictures(tuple(pictures for _, pictures in kept), texts, np.array(owners, np.int64))


def _entries(source: Path) -> Sequence[ManifestEntry]:
    if source.is_file():
        return list(manifest.read(source))
    layout = folders.FolderLayout((), lambda *_: ())
    return folders.read(source, layout).entries


def _readable(paths: Sequence[Path]) -> tuple[Path, ...]:
    readable = []
    for path in paths:
        try:
            decode(path.read_bytes())
        except (ImageError, OSError):
            continue
        readable.append(path)
    return tuple(readable)


def caption_ranks(encoder: Encoder, things: CaptionedPictures) -> Int64[np.ndarray, " q"]:
    """The rank of each caption's own item among all items."""
    features = [
        pool_mean(encoder.pictures([decode(path.read_bytes()) for path in paths]))
        for paths in tqdm(things.pictures, desc=encoder.bundle.name, unit="item")
    ]
    gallery = encoder.vectors(np.stack(features))
    queries = encoder.vectors(encoder.texts(things.captions).features)
    return ranks(queries @ gallery.T, np.equal.outer(things.owners, np.arange(len(gallery))))


def mean_recall(places: Int64[np.ndarray, " q"]) -> Float64[np.ndarray, " q"]:
    """The mean of recall@1, 5 and 10 of each caption."""
    return np.asarray(np.mean([recall_at_k(places, cut) for cut in CUTS], axis=0), np.float64)


@dataclass(frozen=True)
class EncoderChoice:
    """The best of several encoders, and whether it is clearly the best."""

    best: str
    clear: bool
    lines: tuple[str, ...]  # for people


def choose_encoder(
    places: Mapping[str, Int64[np.ndarray, " q"]], owners: Int64[np.ndarray, " q"]
) -> EncoderChoice:
    """Compare encoders by the ranks of the same captions, with paired intervals over items."""
    values = {name: mean_recall(one) for name, one in places.items()}
    order = sorted(values, key=lambda name: -values[name].mean())
    best = order[0]
    clear = True
    lines = [
        f"{len(owners)} captions of {len(np.unique(owners))} items; recall: the mean of recall@1, 5 and 10"
    ]
    for name in order:
        low, high = bootstrap(values[name], groups=owners)
        ends = f"{100 * values[name].mean():5.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
        first = f"recall@1 {100 * recall_at_k(places[name], 1).mean():.1f} %"
        line = f"  {name:24} {ends:24} {first}"
        if name != best:
            difference = values[best] - values[name]
            low, high = bootstrap(difference, groups=owners)
            clear = clear and low > 0
            more = f"{100 * difference.mean():.1f} points more [{100 * low:.1f}, {100 * high:.1f}]"
            line += f"   {best} finds {more}"
        lines.append(line)
    verdict = f"best: {best}"
    if len(order) > 1 and not clear:
        verdict += "; but an interval holds 0: these captions do not tell it apart from every other one"
    return EncoderChoice(best, clear, (*lines, verdict))


def compare_candidates(
    candidates: Sequence[str], things: CaptionedPictures, open_one: Callable[[str], Encoder]
) -> EncoderChoice:
    """Ask each candidate in turn; one is in memory at a time."""
    return choose_encoder({name: caption_ranks(open_one(name), things) for name in candidates}, things.owners)
