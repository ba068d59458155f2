"""The items that `multifold bench shapes` trains on and asks for, and copies of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from benches.learning.kits import kit_entries
from benches.shapes.copies import Change, changed, grey, remesh, turn
from multifold import manifest
from multifold.errors import MultifoldError
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.furniture.modeling.facts import Attribute

UNSEEN_ON_GREY: tuple[Attribute, ...] = ("colour", "pattern", "material")
FEW_SIDES = 2
TENTH = 10  # one of so many training items is not learned: the sum of views and points is weighed by them
# the kits that the seeds ask for, in turn
KITS = (
    "Dungeon-Remastered-1.0",
    "Restaurant-Bits-1.0",
    "Furniture-Bits-1.0",
    "Halloween-Bits-1.0",
    "Platformer Kit",
)


@dataclass(frozen=True)
class AskedItems:
    """Items with the texts that ask for them, and copies of them in the same order."""

    entries: Sequence[ManifestEntry]
    turned: Sequence[ManifestEntry]
    remeshed: Sequence[ManifestEntry] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # of items that are known by a name alone

    @property
    def texts(self) -> list[Sequence[str]]:
        return [[self.names[one.id]] if self.names else one.texts for one in self.entries]

    @property
    def keys(self) -> list[str]:
        """What tells items apart: those of one name answer each other."""
        return [self.names.get(one.id, one.id) for one in self.entries]

    @property
    def hidden(self) -> Bool[np.ndarray, " q"]:
        """For each text: does it name a fact that is seen from two sides at most?"""
        each = (names_hidden(one, len(texts)) for one, texts in zip(self.entries, self.texts, strict=True))
        return np.array([rare for some in each for rare in some])


@dataclass(frozen=True)
class ShapeWorld:
    """Items to learn from, items to weigh the sum by, and held-out items to ask for."""

    train: Sequence[ManifestEntry]
    weighed: AskedItems
    held_out: AskedItems


def furniture_world(name: str, items: int, seed: int, cache: Path) -> ShapeWorld:
    """A world of furniture, written once into the cache."""
    folder = cache / f"shapes-{name}-{items}-{seed}"
    path = folder / "furniture" / "manifest.jsonl"
    if not path.exists():
        order = FurnitureOrder(folder / "furniture", seed, unsaid=UNSEEN_ON_GREY if name == "grey" else ())
        write_furniture(order, items, workers=cores())
    entries = list(manifest.read(path))
    if name == "grey":
        entries = [changed(entry, folder / "grey", grey) for entry in entries]
    learned = [entry for entry in entries if entry.split == "train"]
    return _world(learned, [entry for entry in entries if entry.split != "train"], folder, {})


def kit_world(data: Path | None, seed: int, cache: Path) -> ShapeWorld:
    """The models of all kits but one, which is asked for by the names of its models."""
    if data is None:
        raise MultifoldError("the world `kits` needs --data: a folder of game kits with an items.jsonl")
    asked, entries = KITS[seed % len(KITS)], [entry for entry in kit_entries(data) if entry.mesh is not None]
    names = {entry.id: entry.texts[0] for entry in entries}
    learned = [entry for entry in entries if entry.meta["kit"] != asked]
    held_out = [entry for entry in entries if entry.meta["kit"] == asked]
    return _world(learned, held_out, cache / "shapes-kits", names)


def _world(
    learned: Sequence[ManifestEntry],
    held_out: Sequence[ManifestEntry],
    folder: Path,
    names: Mapping[str, str],
) -> ShapeWorld:
    """Some of the items to learn from are set aside to weigh the sum by."""
    train = [one for place, one in enumerate(learned) if place % TENTH]
    weighed = _with_copies(learned[::TENTH], {"turned": turn}, folder, names)
    return ShapeWorld(
        train, weighed, _with_copies(held_out, {"turned": turn, "remeshed": remesh}, folder, names)
    )


def _with_copies(
    entries: Sequence[ManifestEntry], changes: Mapping[str, Change], folder: Path, names: Mapping[str, str]
) -> AskedItems:
    copies = {
        kind: [changed(one, folder / kind, change) for one in entries] for kind, change in changes.items()
    }
    return AskedItems(entries, names=names, **copies)


def names_hidden(entry: ManifestEntry, texts: int) -> list[bool]:
    """Whether each text of a piece names a fact that few sides show; its kind shows from all of them."""
    if "facts" not in entry.meta:
        return [False] * texts
    few = {fact for fact, sides in entry.meta["facts"].items() if len(sides) <= FEW_SIDES}
    return [not few.isdisjoint(caption) for caption in entry.meta["captions"]]
