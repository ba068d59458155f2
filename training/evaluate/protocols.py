"""Named ways to measure: what is asked, of how many items, and what counts as right.

A published number belongs to its gallery. A protocol that names one says by how much ours differs, and a
table that does not fit is still written, under that remark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multifold.errors import MultifoldError
from multifold.manifest import Entry
from training.evaluate.retrieval import POOLS, Key

EVERYTHING: tuple[Key, ...] = tuple((name, pool) for name, pools in POOLS.items() for pool in pools)


@dataclass(frozen=True)
class Protocol:
    """What is asked; the items and texts of the published gallery; whether equal texts are all right."""

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
        "MXM-CLR's Text → Image and Agg-Text → Image: all views are candidates, any right one counts.",
        (("text_to_image", "each"), ("agg_text_to_image", "each")),
        (1492, 7452),
    ),
    "flickr30k-1k": Protocol(
        "Karpathy's test split: 5,000 captions ask 1,000 photos, photos ask captions; one of five is a hit.",
        (("text_to_image", "each"), ("image_to_text", "each")),
        (1000, 5000),
    ),
}


def named(name: str) -> Protocol:
    """A protocol by its name."""
    if name not in PROTOCOLS:
        raise MultifoldError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def differences(protocol: Protocol, entries: Sequence[Entry]) -> list[str]:
    """How this gallery differs from the published one."""
    if protocol.gallery is None:
        return []
    ours = (len(entries), sum(len(entry.texts) for entry in entries))
    return [
        f"{have:,} {what} where the protocol has {published:,}: not comparable with published numbers"
        for have, published, what in zip(ours, protocol.gallery, ("items", "texts"), strict=True)
        if published is not None and have != published
    ]
