"""A storm of changes that can be foretold: change number n is the same in every process."""

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import numpy as np

from index.collection import Collection
from index.contracts import IndexPlan
from multifold.types import Item
from tests.index.spaces import SPACE
from tests.index.things import thing

PLAN = IndexPlan(seal_at=64, flat_below=64)  # so that rows are sealed meanwhile
NAMES = [f"item {n}" for n in range(12)]


def change(number: int) -> tuple[list[Item], list[str]]:
    """What the change writes, or what it deletes."""
    rng = np.random.default_rng(number)
    names = [str(name) for name in rng.choice(NAMES, int(rng.integers(1, 5)), replace=False)]
    if rng.random() < 0.3:
        return [], names
    return [thing(name, rng, views=int(rng.integers(1, 40))) for name in names], []


def apply(collection: Collection, number: int) -> None:
    """Make the change of that number."""
    items, gone = change(number)
    collection.upsert(items) if items else collection.delete(gone)


def foretold(state: Mapping[str, Item], number: int) -> dict[str, Item]:
    """The state after one more change."""
    items, gone = change(number)
    kept = {name: item for name, item in state.items() if name not in gone}
    return kept | {item.id: item for item in items}


def main(folder: Path, number: int) -> None:
    """Make changes for ever, and say which have been acknowledged."""
    collection = Collection.open(folder, SPACE, plan=PLAN)
    for each in count(number):
        apply(collection, each)
        print(each, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
