"""What a store says of itself: the version of its schema, and the encoder whose features it holds."""

from dataclasses import dataclass
from uuid import uuid4

from index.truth.migrations import migrate
from index.truth.schema import VERSION, clock, meta, tables
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, insert, inspect, select, update


SESSION = "session"
VECTOR_ID = "vector_id"


class ForeignStoreError(MultifoldError):
    """The folder holds the collection of another encoder, or of another version of this program."""


@dataclass(frozen=True)
class Stamp:
    """The encoder of a store, and the length of its features if there are any."""

    vector_id: str
    feature_length: int | None


def create(connection: Connection, vector_id: str | None) -> None:
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


def recognise(connection: Connection, name: str, vector_id: str | None) -> Stamp:
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
    return Stamp(known[VECTOR_ID], None if length is None else int(length))


def session(connection: Connection) -> str | None:
    """The name of the last process that opened the store for writing; a copy goes its own way from there."""
    return note(connection, SESSION)


def begin_session(connection: Connection) -> str:
    """Give this process's writes a name of their own."""
    name = uuid4().hex
    write_note(connection, SESSION, name)
    return name


def note(connection: Connection, key: str) -> str | None:
    """What the store says of itself under this key."""
    found: str | None = connection.scalar(select(meta.c.value).where(meta.c.key == key))
    return found


def write_note(connection: Connection, key: str, value: str) -> None:
    """Say something else under this key."""
    if note(connection, key) is None:
        connection.execute(insert(meta), {"key": key, "value": value})
    else:
        connection.execute(update(meta).where(meta.c.key == key).values(value=value))
