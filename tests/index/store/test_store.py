"""A store that is gone, emptied, harmed or not to be written is refused in a sentence."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from index.collection import Collection
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.registry import CollectionRegistry, ensure_collection
from index.store.database import StoreError
from index.store.filters import parse_filter
from index.store.folder_locks import LockError
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.types import Item
from tests.index.spaces import SPACE
from tests.index.things import feature, view


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with Collection.open(home, SPACE) as collection:
        collection.blobs.put(b"a picture", ".png")
        collection.upsert([Item(f"i{n}", (view(0, feature(n, 1)),), {"n": n}) for n in range(20)])
    return home


def test_the_last_change_is_known_to_the_one_who_writes(folder: Path) -> None:
    path = folder / "store.sqlite"
    with closing(Store(path, SPACE.vector_id)) as store:
        known = [store.known_version]
        store.upsert([Item("new", (view(0, feature(1)),))])
        known.append(store.known_version)
        store.delete(["new", "i1"])
        known.append(store.known_version)
        with pytest.raises(StoreError):
            store.upsert([Item("twice", (view(0, feature(1)),))] * 2)
        known.append(store.known_version)  # whatever became of it
        assert store.delete_where(parse_filter({"n": 3})) == 1
        assert [*known, store.known_version] == [20, 21, 23, None, 24]
        assert store.version() == 24
        with closing(Store(path, SPACE.vector_id, read_only=True)) as other:
            assert other.known_version is None


def drop_all(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if not name.startswith("sqlite_"):
                connection.execute(f"DROP TABLE IF EXISTS {name}")


def empty(store: Path) -> None:
    store.write_bytes(b"")


@pytest.mark.parametrize("harm", [Path.unlink, empty, drop_all])
def test_a_store_that_is_gone_beside_pictures_is_refused(folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder / "store.sqlite")
    before = (folder / "store.sqlite").exists()
    with pytest.raises(StoreError, match=r"1 pictures are beside it.*index restore"):
        Collection.open(folder, SPACE)
    assert (folder / "store.sqlite").exists() == before
    if not before:
        with pytest.raises(StoreError, match="1 pictures are beside it"):
            compact_collection(CollectionLocation(folder))


@pytest.mark.parametrize("harm", [Path.unlink, empty])
def test_other_collections_are_not_swept_with_a_lost_registry(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    at = ensure_collection(CollectionLocation(tmp_path), "chairs", SPACE.vector_id, "a test")
    Collection.open(at.folder, SPACE).close()
    Collection.open(tmp_path, SPACE).close()  # the main one may come after others
    harm(tmp_path / "store.sqlite")
    for begin in (lambda: Collection.open(tmp_path, SPACE), lambda: CollectionRegistry(tmp_path)):
        with pytest.raises(StoreError, match="1 other collections are beside it"):
            begin()
    assert at.folder.is_dir()


def test_a_new_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"")  # killed before the first table
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.count() == 0


def run(statement: str) -> Callable[[Path], None]:
    def harm(store: Path) -> None:
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(statement)

    return harm


def overwrite(start: int, length: int) -> Callable[[Path], None]:
    def harm(store: Path) -> None:
        with open(store, "r+b") as file:
            file.seek(start)
            file.write(b"\xa5" * length)

    return harm


HARMS = {
    "no header": overwrite(0, 100),
    "text": lambda store: store.write_text("gone " * 9000),
    "half": lambda store: os.truncate(store, store.stat().st_size // 2),
    "pages": overwrite(16_384, 40_000),
    "no notes": run("DELETE FROM meta"),
    "no encoder": run("DELETE FROM meta WHERE key = 'vector_id'"),
    "length": run("UPDATE meta SET value = 'many' WHERE key = 'feature_length'"),
    "schema": run("UPDATE meta SET value = 'new' WHERE key = 'schema'"),
    "plan": run("INSERT INTO meta VALUES ('plan', '{\"kind\": 3}')"),
    "no JSON": run("INSERT INTO meta VALUES ('plan', '{')"),
    "no clock": run("DELETE FROM clock"),
    "clock": run("UPDATE clock SET last = 3"),
    "no items": run("DROP TABLE items"),
    "column": run("ALTER TABLE observations RENAME COLUMN feature TO features"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_harm_to_the_file_is_told_in_a_sentence(folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder / "store.sqlite")
    with pytest.raises(MultifoldError, match=r"^\S.*\.$"):
        Collection.open(folder, SPACE)


def refuse_to_write(path: os.PathLike[str] | str, *_: object, **__: object) -> int:
    raise OSError(30, "Read-only file system", str(path))


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", refuse_to_write)
    with pytest.raises(LockError, match=r"home cannot be written to: Read-only file system\."):
        Collection.open(folder, SPACE)
    monkeypatch.setattr(Path, "mkdir", refuse_to_write)
    with pytest.raises(StoreError, match=r"new cannot be made: Read-only file system\."):
        Collection.open(tmp_path / "new", SPACE)
