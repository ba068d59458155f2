"""Stores of every older schema are opened, brought up to date, and hold what they held."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from multifold.types import Item, Observation
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, brute, feature, query, same, thing

GOLDEN = Path(__file__).parent.parent / "golden"
SPACE = Sphere(FEATURE)
STORES = sorted(GOLDEN.glob("store_*.sqlite"))


def held(store: Path) -> tuple[int, list[Item]]:
    """Version and items of a golden store, the items in the order in which they were last written."""
    told = json.loads(store.with_suffix(".json").read_text("utf-8"))
    return told["version"], [_item(one) for one in told["items"]]


def _item(told: dict[str, object]) -> Item:
    seen = [
        Observation(kind, index, np.array(numbers, np.float32), text, blob)
        for kind, index, numbers, text, blob in told["observations"]  # type: ignore[attr-defined]
    ]
    return Item(str(told["id"]), tuple(seen), told["payload"])  # type: ignore[arg-type]


def test_there_are_old_stores() -> None:
    assert "store_1" in [store.stem for store in STORES]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_an_old_store_holds_what_it_held(tmp_path: Path, store: Path) -> None:
    shutil.copy(store, tmp_path / "store.sqlite")
    version, items = held(store)
    for _ in range(2):  # brought up to date, and opened again
        with Collection.open(tmp_path, SPACE) as collection:
            assert collection.version == version
            assert collection.ids() == sorted(item.id for item in items)
            assert all(same(collection.get(item.id), item) for item in items)
            for pooled in ("mean", "max"):
                asked = query(feature(1, -1, 0.5), pool=pooled, limit=20)
                assert answers(collection.search(asked)) == brute(items, SPACE, asked)


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.stem)
def test_an_old_store_goes_on(tmp_path: Path, store: Path) -> None:
    shutil.copy(store, tmp_path / "store.sqlite")
    version, items = held(store)
    new = thing("new", np.random.default_rng(1))
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.delete([items[0].id]) == 1
        assert collection.upsert([new, items[1]]) == version + 3
    with Collection.open(tmp_path, SPACE) as collection:
        kept = [*items[2:], new, items[1]]
        assert answers(collection.search(query(feature(1), limit=20))) == brute(
            kept, SPACE, query(feature(1), limit=20)
        )
