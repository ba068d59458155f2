"""Named evaluation protocols, and the retrieval numbers measured by one as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32, Int64

from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.metrics import bootstrap, ranks, recall_at_k
from training.retrieval.directions import CUTS, POOLS, Key, Pooling, RetrievalDirection, numbers

EVERYTHING: tuple[Key, ...] = tuple((name, pool) for name, pools in POOLS.items() for pool in pools)


@dataclass(frozen=True)
class Protocol:
    """What is measured; the sizes of the published gallery; whether all equal texts are relevant."""

    about: str
    keys: tuple[Key, ...] = EVERYTHING
    gallery: tuple[int, int | None] | None = None
    equal_texts: bool = False


TEXT2SHAPE: tuple[Key, ...] = (("text_to_shape", "mean"), ("shape_to_text", "each"))
PROTOCOLS: Mapping[str, Protocol] = {
    "own": Protocol("Every direction; right is what belongs to the item that asks."),
    "equal-texts": Protocol(
        "Every direction; right is also every other item that the text is said of, word for word.",
        equal_texts=True,
    ),
    "text2shape-1492": Protocol(
        "TriCoLo's test split, which MXM-CLR's tables fit: captions ask all shapes, shapes ask all captions.",
        TEXT2SHAPE,
        (1492, 7452),
    ),
    "text2shape-1434": Protocol(
        "The test set of Parts2Words, COM3D and SCA3D: only shapes with part labels. Name them with --ids.",
        TEXT2SHAPE,
        (1434, None),
    ),
    "mxm-image": Protocol(
        "MXM-CLR's Text and Image, Agg-Text and Image, both ways: all views ask or answer; one is a hit.",
        (
            ("text_to_image", "each"),
            ("image_to_text", "each"),
            ("agg_text_to_image", "each"),
            ("image_to_text", "mean"),
        ),
        (1492, 7452),
    ),
    "flickr30k-1k": Protocol(
        "Karpathy's test split: 5,000 captions ask 1,000 photos, photos ask captions; one of five is a hit.",
        (("text_to_image", "each"), ("image_to_text", "each")),
        (1000, 5000),
    ),
    "coco-5k": Protocol(
        "Karpathy's test split of COCO: 25,010 captions ask 5,000 photos, photos ask captions; one is a hit.",
        (("text_to_image", "each"), ("image_to_text", "each")),
        (5000, 25010),
    ),
}


def find_protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise MultifoldError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def gallery_differences(protocol: Protocol, entries: Sequence[ManifestEntry]) -> list[str]:
    """How this gallery differs from the published one."""
    if protocol.gallery is None:
        return []
    ours = (len(entries), sum(len(entry.texts) for entry in entries))
    return [
        f"{have:,} {what} where the protocol has {published:,}: not comparable with published numbers"
        for have, published, what in zip(ours, protocol.gallery, ("items", "texts"), strict=True)
        if published is not None and have != published
    ]


DirectionSearch: TypeAlias = Callable[[str, Pooling], RetrievalDirection | None]
CURVE_CUTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
NO_CATEGORY = "(none)"


def measure_retrieval(
    protocol: Protocol, entries: Sequence[ManifestEntry], search: DirectionSearch, label: str | None
) -> dict[str, Any]:
    """Every available direction and pool: numbers, a curve, and recalls by category."""
    measured: dict[str, Any] = {}
    for name, pool in protocol.keys:
        direction = search(name, pool)
        if direction is None or not len(direction.scores):
            continue
        places = ranks(direction.scores, direction.relevant)
        measures = numbers(direction)
        measures["curve"] = {str(k): round(float(recall_at_k(places, k).mean()), 4) for k in CURVE_CUTS}
        if label is not None:
            categories = [category_of(entries[item], label) for item in direction.items]
            measures["categories"] = _categories(places, categories)
        measured.setdefault(name, {})[pool] = measures
    return measured


def category_of(entry: ManifestEntry, label: str) -> str:
    return str(entry.meta.get(label, NO_CATEGORY))


def _categories(places: np.ndarray, categories: Sequence[str]) -> dict[str, Any]:
    """Recalls of the queries of each category, against the whole gallery."""
    kinds = np.array(categories)
    return {
        str(kind): {"queries": int((kinds == kind).sum())}
        | {f"R@{k}": round(float(recall_at_k(places[kinds == kind], k).mean()), 4) for k in CUTS}
        for kind in np.unique(kinds)
    }


def accuracy(scores: Float32[np.ndarray, "b c"], right: Int64[np.ndarray, " b"]) -> dict[str, Any]:
    """The share whose best class is right, among the first five, and the mean over classes."""
    own = np.take_along_axis(scores, right[:, None], axis=1)
    ahead = (scores >= own).sum(axis=1)  # ties count against us
    hits = (ahead == 1).astype(np.float64)
    shares = [hits[right == one].mean() for one in np.unique(right)]
    values = (hits.mean(), *bootstrap(hits))
    return {
        "accuracy": [round(float(value), 4) for value in values],
        "top5": round(float((ahead <= 5).mean()), 4),
        "per_class": round(float(np.mean(shares)), 4),
    }
