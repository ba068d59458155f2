"""The contract of what is derived from the store: engines of vectors, and indexes of texts."""

from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import DerivedIndex
from multifold.types import Item
from tests.index.spaces import SPACE
from tests.index.things import caption, feature, view


def thing(name: str) -> Item:
    return Item(name, (view(0, feature(1)), caption(0, feature(2), f"a red {name}")), {})


def derived(collection: Collection, name: str) -> DerivedIndex:
    indexes: dict[str, DerivedIndex] = {"engines": collection.engines, "texts": collection.texts}
    return indexes[name]


@pytest.mark.parametrize("name", ["engines", "texts"])
def test_it_follows_each_change_and_has_no_problems(collection: Collection, name: str) -> None:
    index = derived(collection, name)

    def add() -> None:
        collection.upsert([thing(f"t{n}") for n in range(9)])

    def replace() -> None:
        collection.upsert([thing("t1")])

    def delete() -> None:
        collection.delete(["t2", "t3"])

    for change in (add, replace, delete):
        change()
        index.settle()
        assert index.version == collection.version
        assert [*index.problems()] == []


@pytest.mark.parametrize("name", ["engines", "texts"])
def test_it_catches_up_with_other_processes(
    collection: Collection, tmp_path: Path, database: str | None, name: str
) -> None:
    with Collection.open(tmp_path / "things", SPACE, database=database, read_only=True) as reader:
        index = derived(reader, name)
        before = index.version
        collection.upsert([thing("t1")])
        assert index.version == before
        index.catch_up()
        assert index.version == collection.version > before
        index.catch_up()
        assert [*index.problems()] == []


@pytest.mark.parametrize("name", ["engines", "texts"])
def test_it_says_what_the_store_does_not(collection: Collection, name: str) -> None:
    collection.upsert([thing(f"t{n}") for n in range(4)])
    if name == "texts":
        collection.texts.words.remove([1])
    else:
        engine = collection.engines.engines["shape", "pooled"]
        engine.remove(np.concatenate([ids for ids, _ in engine.blocks()])[:1])
    index = derived(collection, name)
    assert len([*index.problems()]) == 1


@pytest.mark.parametrize("name", ["engines", "texts"])
def test_what_is_kept_is_what_the_next_process_begins_with(tmp_path: Path, name: str) -> None:
    with Collection.open(tmp_path / "kept", SPACE) as first:
        first.upsert([thing(f"t{n}") for n in range(100)])
        first.delete(["t5"])
        index = derived(first, name)
        index.keep()
        index.save()
        version = index.version
    with Collection.open(tmp_path / "kept", SPACE) as again:
        index = derived(again, name)
        assert index.version == version
        assert [*index.problems()] == []
