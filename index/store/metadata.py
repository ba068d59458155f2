"""What a store says of itself: schema version and encoder; and the steps from older schemas."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from index.store.schema import VERSION, clock, meta, tables
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, insert, inspect, select, update


SCHEMA = "schema"

# From that version to the next. Version 5 is the first that is released: nothing older is brought up to date.
STEPS: dict[int, Callable[[Connection], None]] = {}


def migrate(connection: Connection) -> None:
    """Bring an older store up to date; a version that no steps lead from is left as it is."""
    found = connection.scalar(select(meta.c.value).where(meta.c.key == SCHEMA))
    version = int(found) if found is not None and found.isdigit() else VERSION
    if version >= VERSION or not all(step in STEPS for step in range(version, VERSION)):
        return
    for step in range(version, VERSION):
        STEPS[step](connection)
    connection.execute(update(meta).where(meta.c.key == SCHEMA).values(value=str(VERSION)))


SESSION = "session"
VECTOR_ID = "vector_id"


class ForeignStoreError(MultifoldError):
    """The folder holds the collection of another encoder, or of another version of this program."""


@dataclass(frozen=True)
class StoreStamp:
    """The encoder of a store, and the length of its features if there are any."""

    vector_id: str
    feature_length: int | None


def create_or_migrate(connection: Connection, vector_id: str | None) -> None:
    """Make the tables of a new store, if its encoder is known; bring those of an older one up to date."""
    if inspect(connection).has_table(meta.name):
        migrate(connection)
        return
    if vector_id is None:
        return
    tables.create_all(connection)
    stamp = {"schema": str(VERSION), VECTOR_ID: vector_id}
    connection.execute(insert(meta), [{"key": key, "value": value} for key, value in stamp.items()])
    connection.execute(insert(clock), {"last": 0})


def check_stamp(connection: Connection, name: str, vector_id: str | None) -> StoreStamp:
    """Refuse what is not ours; without a `vector_id` any encoder's store is."""
    known = {row.key: row.value for row in connection.execute(select(meta))}
    if known.get("schema") != str(VERSION):
        raise ForeignStoreError(
            f"{name} has the schema {known.get('schema')}, this program reads {VERSION}. "
            "Open it for writing once if it is older, or with the version of Multifold that wrote it."
        )
    if vector_id not in (None, known[VECTOR_ID]):
        raise ForeignStoreError(
            f"The collection in {name} was made with the encoder {known[VECTOR_ID]!r} and cannot be "
            f"searched with {vector_id!r}: their vectors do not compare. Serve it with its own bundle, or "
            "ingest the originals into a new collection."
        )
    length = known.get("feature_length")
    return StoreStamp(known[VECTOR_ID], None if length is None else int(length))


def read_session(connection: Connection) -> str | None:
    """The name of the last process that opened the store for writing; a copy goes its own way from there."""
    return read_note(connection, SESSION)


def begin_session(connection: Connection) -> str:
    """Give this process's writes a name of their own."""
    name = uuid4().hex
    write_note(connection, SESSION, name)
    return name


def read_note(connection: Connection, key: str) -> str | None:
    """What the store says of itself under this key."""
    found: str | None = connection.scalar(select(meta.c.value).where(meta.c.key == key))
    return found


def write_note(connection: Connection, key: str, value: str) -> None:
    """Say something else under this key."""
    if read_note(connection, key) is None:
        connection.execute(insert(meta), {"key": key, "value": value})
    else:
        connection.execute(update(meta).where(meta.c.key == key).values(value=value))
