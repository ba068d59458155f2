"""Damage of what is stored: what is read is what was written, or it is named.

Items, observations and verdicts have checksums. What items are filtered by is compared with their payloads.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, and_, bindparam, select, text, update

from index.store.database import checksums, checksums_of, is_sound, is_whole, is_whole_item
from index.store.feedback import damaged_judgements
from index.store.item_rows import edition_of, fact_records
from index.store.schema import facts, items, observations

log = logging.getLogger(__name__)
READ_ROWS = 2_000  # read at once
START, LAST = -1, 1 << 62  # before the first row; after the last edition
COLUMNS = ("feature_checksum", "row_checksum")  # of an observation; an item has the second


class StoredDamage(NamedTuple):
    """A part of an item of which the store holds something else than was written."""

    item: str
    part: str
    mendable: bool  # only a feature, or what is derived of the payload: it can be made anew

    def __str__(self) -> str:
        return f"Item {self.item!r}: {self.part} is not what was written"


def find_damage(connection: Connection) -> Iterator[StoredDamage]:
    after = START
    while True:
        damage, after = find_damage_after(connection, after, READ_ROWS)
        yield from damage
        if after == START:
            return


def find_damage_after(connection: Connection, after: int, most: int) -> tuple[list[StoredDamage], int]:
    """What is damaged of so many observations after one and their items, and the last row.

    After the last row: what is damaged of the verdicts too, and START.
    """
    query = select(observations).where(observations.c.row > after).order_by(observations.c.row).limit(most)
    rows = connection.execute(query).all()
    damage = list(name_damage(connection, [row for row in rows if not is_sound(row)]))
    if len(rows) == most:
        damage += _damaged_items(connection, edition_of(after), edition_of(rows[-1].row))
        return damage, rows[-1].row
    damage += _damaged_items(connection, edition_of(after), LAST)
    for item in damaged_judgements(connection):
        damage.append(StoredDamage(item, "a verdict on it", mendable=False))
    return damage, START


def _damaged_items(connection: Connection, after: int, last: int) -> Iterator[StoredDamage]:
    """Items of these editions whose rows are damaged, or the rows of what they are filtered by."""
    values = defaultdict(list)
    for edition, *value in connection.execute(select(facts).where(_between(facts, after, last))):
        values[edition].append(tuple(value))
    for row in connection.execute(select(items).where(_between(items, after, last))):
        if not is_whole_item(row):
            yield StoredDamage(row.id, "its payload or its list of files", mendable=False)
            continue
        written = [tuple(one.values())[1:] for one in fact_records(row.edition, row.payload)]
        if Counter(values[row.edition]) != Counter(written):
            yield StoredDamage(row.id, "a value that it is filtered by", mendable=True)


def _between(table: Table, after: int, last: int) -> ColumnElement[bool]:
    return and_(table.c.edition > after, table.c.edition <= last)


def name_damage(connection: Connection, rows: Sequence[Any]) -> Iterator[StoredDamage]:
    """Whose these damaged observations are."""
    for row in rows:
        owner = connection.scalar(select(items.c.id).where(items.c.edition == row.edition))
        mendable = is_whole(row)
        part = f"{row.kind} {row.ordinal} is damaged: its {'feature' if mendable else 'row'}"
        yield StoredDamage(owner or "?", part, mendable)


def log_damage(connection: Connection, rows: Sequence[Any]) -> None:
    """Name the observations of these rows that searches leave out."""
    for damage in name_damage(connection, [row for row in rows if not is_sound(row)]):
        log.error("%s; searches leave it out until it is made anew or its item is written again", damage)


def add_checksums(connection: Connection) -> None:
    """Bring a store of schema 5 to schema 6, with the checksums of what it holds now."""
    _add_columns(connection, observations, COLUMNS, checksums_of)
    _add_columns(connection, items, COLUMNS[1:], lambda row: checksums(*row[:-1])[1:])


def _add_columns(
    connection: Connection, table: Table, names: Sequence[str], of: Callable[[Sequence[Any]], Sequence[int]]
) -> None:
    for name in names:
        statement = f"ALTER TABLE {table.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"
        connection.execute(text(statement))
    places = ("this", *(f"new_{name}" for name in names))
    key = next(iter(table.primary_key))
    last = START
    new = {name: bindparam(f"new_{name}", type_=BigInteger) for name in names}
    change = update(table).where(key == bindparam("this")).values(new)
    while rows := connection.execute(select(table).where(key > last).order_by(key).limit(READ_ROWS)).all():
        sums = [dict(zip(places, (row[0], *of(row)), strict=True)) for row in rows]
        connection.execute(change, sums)
        last = rows[-1][0]
