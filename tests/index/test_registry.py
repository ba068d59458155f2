"""Collections beside the main one: named, found again, dropped, on either store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from index.names import CollectionNameError
from index.registry import (
    FOLDER,
    CollectionEntry,
    CollectionRegistry,
    NameTakenError,
    NoSuchCollectionError,
    SeveralCollectionsError,
    groups,
)
from index.store.database import StoreError
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE
from tests.index.things import feature, query

HOSTILE = ("", "..", "a/b", "A", "-a", "a.b", "a b", "ä", "a\x00", "a" * 41, "c;drop", 'c"', "a\n")


@pytest.fixture
def registry(tmp_path: Path, database: str | None) -> Iterator[CollectionRegistry]:
    with Collection.open(tmp_path, SPACE, database=database):
        opened = CollectionRegistry(tmp_path, database)
        yield opened
        opened.close()


def collection(registry: CollectionRegistry, entry: CollectionEntry) -> Collection:
    at = registry.located(entry)
    return Collection.open(at.folder, SPACE, database=at.database)


def test_each_holds_its_own(registry: CollectionRegistry, tmp_path: Path, database: str | None) -> None:
    one, other = (registry.create(name, SPACE.vector_id) for name in ("chairs", "my-tables_2"))
    with collection(registry, one) as chairs, collection(registry, other) as tables:
        furnish(chairs)
        assert (chairs.count(), tables.count()) == (20, 0)
        assert tables.search(query(feature(1))) == []
        before = held(chairs)
    again = CollectionRegistry(tmp_path, database)
    assert list(again.listing().entries.values()) == [one, other]
    with collection(again, one) as chairs:
        assert equal(held(chairs), before)
    again.close()


def test_what_is_dropped_is_gone_and_its_name_is_free(registry: CollectionRegistry) -> None:
    entry = registry.create("chairs", SPACE.vector_id)
    with collection(registry, entry) as chairs:
        furnish(chairs)
    assert registry.drop("chairs") == entry
    registry.clear(entry)
    assert not registry.located(entry).folder.exists()
    with pytest.raises(NoSuchCollectionError, match="'chairs'"):
        registry.listing().resolve("chairs")
    again = registry.create("chairs", SPACE.vector_id)
    assert again.place != entry.place
    with collection(registry, again) as chairs:
        assert chairs.count() == 0
    if registry.shared:
        with pytest.raises(StoreError, match=r"schema|table"):
            collection(registry, entry)


def test_aliases_move_in_one_step(registry: CollectionRegistry) -> None:
    for name in ("one", "two"):
        registry.create(name, SPACE.vector_id)
    assert registry.listing().resolve("default") == "main"
    assert registry.set_alias("shop", ["one"]) is None
    assert registry.set_alias("shop", ["two"]) == "one"
    assert registry.set_alias("default", ["two"]) == "main"
    listing = registry.listing()
    assert (listing.resolve("shop"), listing.resolve("default")) == ("two", "two")
    assert listing.aliases_of("two") == ["default", "shop"]
    with pytest.raises(NameTakenError, match="also called default, shop"):
        registry.drop("two")
    registry.drop_alias("default")
    assert registry.listing().resolve("default") == "main"
    for name in ("default", "\0"):
        with pytest.raises(NoSuchCollectionError):
            registry.drop_alias(name)


def test_an_alias_of_several_is_for_searches_and_moves_in_one_step(registry: CollectionRegistry) -> None:
    for name in ("one", "two"):
        registry.create(name, SPACE.vector_id)
    registry.set_alias("shop", ["one"])
    assert registry.set_alias("shop", ["two", "parts", "one"], ["parts"]) == "one"
    listing = registry.listing()
    assert (listing.groups, listing.aliases) == ({"shop": ["one", "parts", "two"]}, {})
    with pytest.raises(SeveralCollectionsError, match="only searches"):
        listing.resolve("shop")
    with pytest.raises(NameTakenError, match="also called shop"):
        registry.drop("two")
    with pytest.raises(NameTakenError, match="already"):
        registry.create("shop", SPACE.vector_id)
    for names in (["one", "shop"], ["one", "elsewhere"], ["parts"]):
        with pytest.raises(NoSuchCollectionError):
            registry.set_alias("more", names, ["parts"])  # what is elsewhere is asked beside others alone
    with pytest.raises(CollectionNameError, match="one collection"):
        registry.set_alias("default", ["one", "two"])
    assert registry.set_alias("shop", ["two"]) is None
    assert registry.listing().resolve("shop") == "two"
    registry.set_alias("shop", ["one", "two"])
    registry.drop_alias("shop")
    assert registry.listing().groups == {}
    assert registry.drop("two").name == "two"


def test_a_folder_of_before_there_were_several_opens(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE), closing(CollectionRegistry(tmp_path)) as registry:
        registry.set_alias("shop", ["main"])
        with registry.store.writing() as connection:
            groups.drop(connection)
        assert registry.listing().aliases == {"shop": "main"}
    with closing(CollectionRegistry(tmp_path)) as registry:
        registry.set_alias("shop", ["main"])
    with closing(CollectionRegistry(tmp_path, read_only=True)) as reader:
        assert reader.listing().resolve("shop") == "main"


def test_a_name_is_safe_everywhere(registry: CollectionRegistry) -> None:
    for name in HOSTILE:
        with pytest.raises(CollectionNameError, match="is no name"):
            registry.create(name, "x")
        with pytest.raises(CollectionNameError, match="is no name"):
            registry.set_alias(name, ["main"])
    assert registry.listing().entries == {}


def test_one_name_stands_for_one_thing(registry: CollectionRegistry) -> None:
    registry.create("one", SPACE.vector_id)
    registry.set_alias("shop", ["one"])
    for name in ("one", "shop", "main", "default"):
        with pytest.raises(NameTakenError):
            registry.create(name, SPACE.vector_id)
    for alias in ("one", "main"):
        with pytest.raises(NameTakenError):
            registry.set_alias(alias, ["main"])
    with pytest.raises(NoSuchCollectionError):
        registry.set_alias("other", ["shop"])  # an alias of an alias
    with pytest.raises(NameTakenError, match="stays"):
        registry.drop("main")


def test_what_a_crash_left_behind_is_swept(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE):
        registry = CollectionRegistry(tmp_path)
        kept, dropped = (registry.create(name, SPACE.vector_id) for name in ("kept", "dropped"))
        for entry in (kept, dropped):
            collection(registry, entry).close()
        foreign = tmp_path / FOLDER / "mine"
        foreign.mkdir()
        registry.drop("dropped")  # and then the power goes
        registry.sweep()
        assert {one.name for one in (tmp_path / FOLDER).iterdir()} == {kept.place, "mine"}
        registry.close()


def test_a_copy_of_the_main_collection_has_no_others(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", SPACE) as main:
        furnish(main)
        registry = CollectionRegistry(tmp_path / "things")
        registry.create("other", SPACE.vector_id)
        registry.close()
        main.snapshot(tmp_path / "things.tar")
    restore_snapshot(tmp_path / "things.tar", tmp_path / "again")
    registry = CollectionRegistry(tmp_path / "again", read_only=True)
    assert registry.listing().entries == {}
    registry.close()
