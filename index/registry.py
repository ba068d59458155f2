"""The collections beside the main one: their names and aliases, and where each is.

The rows are in the main collection's database, in tables of their own: a copy of that collection is without
them. A row is the truth: what belongs to it is made after it and removed after it (on PostgreSQL a schema,
in the same transaction). A folder without a row is what a crash left behind, and is swept."""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from secrets import token_hex

from index.contracts import CollectionLocation
from index.names import DEFAULT, MAIN, CollectionNameError, check_name
from index.store import metadata
from index.store.database import Database, StoreError
from index.store.folder_locks import WriterLock
from index.store.postgres import within
from index.store.schema import meta
from index.store.store import database_at, open_blobs
from multifold.durable import make_folder
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Column, Connection, MetaData, String, Table, delete, insert, inspect, select


class NoSuchCollectionError(MultifoldError):
    """There is no collection and no alias of that name."""


class SeveralCollectionsError(NoSuchCollectionError):
    """An alias of several collections stands for none of them."""


class NameTakenError(MultifoldError):
    """The name, or the collection, is in use."""


@dataclass(frozen=True)
class CollectionEntry:
    """A collection beside the main one. Its place is never used again."""

    name: str
    place: str  # of its folder, and of its schema
    vector_id: str


@dataclass(frozen=True)
class CollectionListing:
    """All names at one moment."""

    entries: Mapping[str, CollectionEntry]
    aliases: Mapping[str, str]  # to the name of a collection
    groups: Mapping[str, Sequence[str]]  # by aliases of several, here and elsewhere

    def resolve(self, name: str) -> str:
        """The collection that a name or an alias stands for."""
        if name in self.groups:
            raise SeveralCollectionsError(f"{name!r} names several collections: only searches ask them all")
        real = self.aliases.get(name, MAIN if name == DEFAULT else name)
        if real != MAIN and real not in self.entries:
            raise NoSuchCollectionError(f"there is no collection {name!r}")
        return real

    def check_new(self, name: str) -> None:
        """Refuse what no new collection can be called."""
        check_name(name)
        if name in (MAIN, DEFAULT) or name in {*self.entries, *self.aliases, *self.groups}:
            raise NameTakenError(f"there is a collection or alias {name!r} already; choose another name")

    def check_alias(self, alias: str) -> None:
        """Refuse what no collection can be called besides its name."""
        check_name(alias)
        if alias == MAIN or alias in self.entries:
            raise NameTakenError(f"{alias!r} is a collection; an alias needs another name")

    def aliases_of(self, name: str) -> list[str]:
        """What else a collection is called."""
        implied = [DEFAULT] if name == MAIN and DEFAULT not in self.aliases else []
        return implied + sorted(alias for alias, meant in self.aliases.items() if meant == name)

    def place(self, name: str) -> str:
        """The place of the collection of a name or an alias."""
        real = self.resolve(name)
        return MAIN if real == MAIN else self.entries[real].place


FOLDER = "collections"
PLACE = re.compile(r"c_[a-z0-9_]+_[0-9a-f]{8}")

tables = MetaData()
collections = Table(
    "collections",
    tables,
    Column("name", String(64), primary_key=True),
    Column("place", String(64), nullable=False, unique=True),
    Column("vector_id", String(128), nullable=False),
)
aliases = Table(
    "aliases",
    tables,
    Column("alias", String(64), primary_key=True),
    Column("collection", String(64), nullable=False),
)
groups = Table(
    "alias_members",
    tables,
    Column("alias", String(64), primary_key=True),
    Column("collection", String(64), primary_key=True),
)


class CollectionRegistry:
    """The collections of a data folder, and of a database if the items are there.

    In a folder only the process that holds the writer's lock may change it.
    """

    def __init__(
        self, data: Path, database: str | None = None, bucket: str | None = None, *, read_only: bool = False
    ) -> None:
        self._data = data
        self._url = database
        self._bucket = bucket
        where = database or data / "store.sqlite"
        self.store: Database = database_at(where, read_only=read_only, fresh=not read_only)
        if not read_only:
            with self.store.writing() as connection:
                tables.create_all(connection)

    @property
    def shared(self) -> bool:
        """Whether other processes may change it too."""
        return self.store.shared

    def listing(self) -> CollectionListing:
        with self.store.reading() as connection:
            return _listing(connection)

    def create(self, name: str, vector_id: str) -> CollectionEntry:
        with self.store.writing() as connection:
            _listing(connection).check_new(name)
            entry = CollectionEntry(name, f"c_{name.replace('-', '_')}_{token_hex(4)}", vector_id)
            connection.execute(insert(collections), vars(entry))
            if self.shared:
                connection.exec_driver_sql(f"CREATE SCHEMA {entry.place}")
        return entry

    def drop(self, name: str) -> CollectionEntry:
        """Delete the entry of a collection without aliases; `clear` removes its files."""
        with self.store.writing() as connection:
            listing = _listing(connection)
            entry = listing.entries.get(name)
            if name == MAIN:
                raise NameTakenError("the main collection stays; remove its items instead")
            if entry is None:
                raise NoSuchCollectionError(f"there is no collection {name!r}")
            named = [alias for alias, members in listing.groups.items() if name in members]
            if called := listing.aliases_of(name) + named:
                raise NameTakenError(f"{name!r} is also called {', '.join(called)}; move that first")
            connection.execute(delete(collections).where(collections.c.name == name))
            if self.shared:
                connection.exec_driver_sql(f"DROP SCHEMA {entry.place} CASCADE")
        return entry

    def set_alias(self, alias: str, names: Sequence[str], elsewhere: Collection[str] = ()) -> str | None:
        """Give collections an alias; returns the collection that had it alone before.

        Of several, some may be known `elsewhere`.
        """
        with self.store.writing() as connection:
            listing = _listing(connection)
            listing.check_alias(alias)
            if alias == DEFAULT and len(names) > 1:
                raise CollectionNameError(f"{DEFAULT!r} names one collection: choose another alias")
            known = {MAIN, *listing.entries, *(elsewhere if len(names) > 1 else ())}
            for name in names:
                if name not in known:
                    raise NoSuchCollectionError(f"there is no collection {name!r}")
            _remove_alias(connection, alias)
            rows = [{"alias": alias, "collection": name} for name in names]
            connection.execute(insert(aliases if len(names) == 1 else groups), rows)
        return MAIN if alias == DEFAULT and alias not in listing.aliases else listing.aliases.get(alias)

    def drop_alias(self, alias: str) -> None:
        """Remove an alias; `default` then means the main collection again."""
        with self.store.writing() as connection:
            listing = _listing(connection)
            if alias not in {*listing.aliases, *listing.groups}:
                raise NoSuchCollectionError(f"there is no alias {alias!r}")
            _remove_alias(connection, alias)

    def located(self, entry: CollectionEntry) -> CollectionLocation:
        """Where its folder, items and pictures are."""
        database, bucket = self._url, self._bucket
        if database is not None:
            database = within(database, entry.place)
        if bucket is not None:
            bucket = f"{bucket.rstrip('/')}/{FOLDER}/{entry.place}"
        return CollectionLocation(self._data / FOLDER / entry.place, database, bucket)

    def clear(self, entry: CollectionEntry) -> None:
        """Remove the files of a collection that was dropped."""
        at = self.located(entry)
        if at.bucket is not None:
            blobs = open_blobs(at.folder, at.bucket)
            blobs.remove(blobs.all())
        shutil.rmtree(at.folder, ignore_errors=True)

    def sweep(self) -> None:
        """Remove folders that a crash left behind; for the one process that writes."""
        places = {entry.place for entry in self.listing().entries.values()}
        for folder in (self._data / FOLDER).glob("c_*"):
            if PLACE.fullmatch(folder.name) and folder.name not in places:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self.store.close()


def _listing(connection: Connection) -> CollectionListing:
    there = inspect(connection).get_table_names()
    if collections.name not in there:
        return CollectionListing({}, {}, {})
    rows = sorted(connection.execute(select(collections)).mappings(), key=itemgetter("name"))
    called = {row.alias: row.collection for row in connection.execute(select(aliases))}
    members = dict[str, list[str]]()
    if groups.name in there:  # else nobody has written here since there are some
        for row in connection.execute(select(groups).order_by(*groups.c)):
            members.setdefault(row.alias, []).append(row.collection)
    return CollectionListing({row["name"]: CollectionEntry(**row) for row in rows}, called, members)


def _remove_alias(connection: Connection, alias: str) -> None:
    for table in (aliases, groups):
        connection.execute(delete(table).where(table.c.alias == alias))


def locate_collection(main: CollectionLocation, name: str) -> CollectionLocation:
    """Where the collection of a name or alias is."""
    if name == MAIN:
        return main
    with closing(CollectionRegistry(main.folder, main.database, main.bucket, read_only=True)) as registry:
        listing = registry.listing()
        real = listing.resolve(name)
        return main if real == MAIN else registry.located(listing.entries[real])


def locate_planned_collection(main: CollectionLocation, name: str) -> CollectionLocation:
    """Where it is; for one that is not there yet, a folder that is not there either."""
    try:
        return locate_collection(main, name)
    except (NoSuchCollectionError, StoreError):
        check_name(name)
        return CollectionLocation(main.folder / FOLDER / name)


def ensure_collection(main: CollectionLocation, name: str, vector_id: str, writer: str) -> CollectionLocation:
    """Where it is; a collection that is not there yet is made, for this encoder."""
    try:
        return locate_collection(main, name)
    except (NoSuchCollectionError, StoreError):
        check_name(name)
    with ExitStack() as stack:
        make_folder(main.folder)
        if main.database is None:
            stack.callback(WriterLock(main.folder, writer).release)
        registry = stack.enter_context(closing(CollectionRegistry(main.folder, main.database, main.bucket)))
        registry.create(name, vector_id)
    return locate_collection(main, name)


def stored_vector_id(at: CollectionLocation) -> str | None:
    """The encoder whose features are there, in a store of whatever version; None where there are none."""
    try:
        database = database_at(at.items, read_only=True, fresh=False)
        with closing(database), database.reading() as connection:
            there = inspect(connection).has_table(meta.name)
            return metadata.read_note(connection, metadata.VECTOR_ID) if there else None
    except MultifoldError:
        return None
