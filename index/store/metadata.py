"""What a store keeps beside its items: schema version and encoder, notes, the clock, and the log of changes.

The clock gives each change a rising number inside its own transaction, and stays locked until that commits:
changes become visible in the order of their numbers, with no gap that could be filled later."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args
from uuid import uuid4

from sqlalchemy import Connection, delete, func, insert, inspect, select, text, update

from index.store import item_rows
from index.store.checksums import add_checksums, log_damage
from index.store.database import insert_rows, is_sound
from index.store.item_rows import FeatureBatch, first_row
from index.store.schema import VERSION, TableRow, changes, clock, items, meta, observations, tables
from multifold.errors import MultifoldError

SCHEMA = "schema"


def add_checksums_and_drop_words(connection: Connection) -> None:
    """Version 6 has checksums; words are indexed in memory (see index/texts)."""
    add_checksums(connection)
    connection.execute(text("DROP TABLE IF EXISTS words"))
    connection.execute(delete(meta).where(meta.c.key == "words"))


# From that version to the next. Version 5 is the first that is released: nothing older is brought up to date.
STEPS: dict[int, Callable[[Connection], None]] = {5: add_checksums_and_drop_words}


def migrate(connection: Connection) -> None:
    """Bring an older store up to date; a version that no steps lead from is left as it is."""
    stamp = read_note(connection, SCHEMA)
    version = int(stamp) if stamp is not None and stamp.isdigit() else VERSION
    if version >= VERSION or not all(step in STEPS for step in range(version, VERSION)):
        return
    for step in range(version, VERSION):
        STEPS[step](connection)
    write_note(connection, SCHEMA, str(VERSION))


COLLECTION = "collection"
SESSION = "session"
FEED_MARK = "cluster"  # the note of how far a cluster was fed
VECTOR_ID = "vector_id"
PICTURES = "pictures"  # where those of a shared store are: `bucket`, or the mark of a folder


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
    stamp = {SCHEMA: str(VERSION), VECTOR_ID: vector_id}
    connection.execute(insert(meta), [{"key": key, "value": value} for key, value in stamp.items()])
    connection.execute(insert(clock), {"last": 0})


def check_stamp(connection: Connection, name: str, vector_id: str | None) -> StoreStamp:
    """Refuse what is not ours; without a `vector_id` any encoder's store is."""
    notes = {row.key: row.value for row in connection.execute(select(meta))}
    if notes.get(SCHEMA) != str(VERSION):
        raise ForeignStoreError(
            f"{name} has the schema {notes.get(SCHEMA)}, this program reads {VERSION}. "
            "Open it for writing once if it is older, or with the version of Multifold that wrote it."
        )
    if vector_id not in (None, notes[VECTOR_ID]):
        raise ForeignStoreError(
            f"The collection in {name} was made with the encoder {notes[VECTOR_ID]!r} and cannot be "
            f"searched with {vector_id!r}: their vectors do not compare. Serve it with its own bundle, or "
            "ingest the originals into a new collection."
        )
    length = notes.get("feature_length")
    return StoreStamp(notes[VECTOR_ID], None if length is None else int(length))


def check_clock(connection: Connection) -> None:
    """Refuse to write where the next change would get a number that an item has."""
    newest = connection.scalar(select(func.max(items.c.edition))) or 0
    if (last := connection.scalar(select(clock.c.last))) is None or last < newest:
        raise ValueError(f"its clock stands at {last}, and an item has the number {newest}")


def begin_session(connection: Connection) -> str:
    """Give this process's writes a name of their own."""
    write_note(connection, SESSION, name := uuid4().hex)
    return name


def name_collection(connection: Connection) -> str:
    """The name of this collection in all files that are derived from it; made by the first who writes."""
    if (name := read_note(connection, COLLECTION)) is None:
        write_note(connection, COLLECTION, name := uuid4().hex)
    return name


def read_note(connection: Connection, key: str) -> str | None:
    return connection.scalar(select(meta.c.value).where(meta.c.key == key))


def write_note(connection: Connection, key: str, value: str) -> None:
    if read_note(connection, key) is None:
        connection.execute(insert(meta), {"key": key, "value": value})
    else:
        connection.execute(update(meta).where(meta.c.key == key).values(value=value))


Action: TypeAlias = Literal["upsert", "delete"]
ACTIONS = get_args(Action)
PRUNED = "pruned"  # the last change that the log no longer holds


def last_change(connection: Connection) -> int:
    return connection.scalar(select(clock.c.last)) or 0


def log_changes(
    connection: Connection, action: Action, entries: Collection[tuple[str, TableRow | None]]
) -> int:
    """Give each change of an item a number, and note the edition it ended; returns the first number."""
    ticked = update(clock).values(last=clock.c.last + len(entries)).returning(clock.c.last)
    first = int(connection.execute(ticked).scalar_one()) - len(entries) + 1
    lines = [
        {
            "sequence": sequence,
            "action": action,
            "item": item,
            "replaced": former["edition"] if former else None,
            "replaced_size": former["size"] if former else None,
        }
        for sequence, (item, former) in enumerate(entries, first)
    ]
    insert_rows(connection, changes, lines)
    return first


def changed_items(connection: Connection, since: int) -> tuple[int, list[str] | None]:
    """The last change, and the items changed after an earlier one; None: the log was cut short."""
    last = last_change(connection)
    if since < pruned_until(connection):
        return last, None
    ids = select(changes.c.item).where(changes.c.sequence > since).distinct()
    return last, sorted(connection.scalars(ids))


def prune_log(connection: Connection, kept: int) -> int:
    """Delete all changes but the last `kept`; returns how many were deleted."""
    end = last_change(connection) - kept
    if end <= pruned_until(connection):
        return 0
    deleted = connection.execute(delete(changes).where(changes.c.sequence <= end)).rowcount
    write_note(connection, PRUNED, str(end))
    return deleted


def pruned_until(connection: Connection) -> int:
    """The last change that the log no longer holds: older engines cannot catch up, and are rebuilt."""
    return int(read_note(connection, PRUNED) or 0)


class ChangesSince:
    """What has happened after a version: editions that ended, and features of editions that are new."""

    def __init__(self, connection: Connection, since: int, batch: int) -> None:
        self._connection = connection
        self._since = since
        self._batch = batch
        self.version: int = last_change(connection)

    def ended(self, until: int | None = None) -> list[tuple[int, int]]:
        """Editions that were replaced or deleted until then, and how many observations they had."""
        query = select(changes.c.replaced, changes.c.replaced_size)
        query = query.where(changes.c.sequence > self._since, changes.c.replaced.is_not(None))
        query = query if until is None else query.where(changes.c.sequence <= until)
        return [(edition, size) for edition, size in self._connection.execute(query)]

    def batches(self) -> Iterator[FeatureBatch]:
        """Features of the new editions in order, whole editions at a time, without damaged ones."""
        row = observations.c.row
        query = select(observations).where(item_rows.KNOWN).order_by(row)
        for editions in self._spans():
            these = query.where(row.between(first_row(editions[0]), first_row(editions[-1] + 1) - 1))
            living = frozenset(editions)  # the number of an item may be damaged
            rows = [one for one in self._connection.execute(these).all() if one.edition in living]
            if len(sound := list(filter(is_sound, rows))) < len(rows):
                log_damage(self._connection, rows)
            if sound:
                yield item_rows.batch_from_rows(sound)

    def _spans(self) -> Iterator[list[int]]:
        query = select(items.c.edition, items.c.size).where(items.c.edition > self._since)
        editions = list[int]()
        total = 0
        for edition, size in self._connection.execute(query.order_by(items.c.edition)).all():
            editions.append(edition)
            total += size
            if total >= self._batch:
                yield editions
                editions, total = [], 0
        if editions:
            yield editions
