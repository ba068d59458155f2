"""Items listed, sorted, counted and grouped by payload, without any vector.

An order is written `newest`, `payload.price` (the least first) or `-payload.price` (the greatest first): by
the numbers of a key, or by its texts if no item has a number there. Only items that have one are listed; of
several in a list, the first in the order counts. Equal ones stand as they were written. A page ends with a
mark, which begins the next one.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from jaxtyping import Int64
from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, or_, select, true

from index.contracts import QueryError
from index.store import item_rows
from index.store.database import is_sound, is_storable, is_whole_item
from index.store.filters import Condition, Filter, filter_condition
from index.store.item_rows import KNOWN, VALUES, FactValue, Scalar, ValueKind, observation_of
from index.store.schema import TableRow, facts, items, observations
from multifold.errors import MultifoldError
from multifold.types import KIND_OF, LONGEST_KEY, Item, Kind, Observation

DAMAGED_ROW = f"its payload and its list of files are damaged, and left out: {item_rows.ANEW}"
SortedColumn: TypeAlias = Any  # of facts
Choice: TypeAlias = Filter | list[str] | None  # of items: by a filter or by their ids; None: all


@dataclass(frozen=True)
class ValueCount:
    """A value, and how many items have it."""

    value: Scalar
    count: int


@dataclass(frozen=True)
class NumberSpan:
    """From the least to the greatest number of a key, and how many items have one."""

    least: float
    greatest: float
    count: int


def count(connection: Connection, where: Filter | None = None) -> int:
    return connection.scalar(select(func.count()).select_from(items).where(_holds(where))) or 0


def check_page(after: str | None, limit: int) -> None:
    if after is not None and not is_storable(after):
        raise QueryError(f"There is no item {after!r} to go on from.")
    if not 1 <= limit <= MAX_PAGE:
        raise QueryError(f"A page has 1 to {MAX_PAGE} items, not {limit}.")


def check_facets(keys: Sequence[str], limit: int = 1) -> None:
    if isinstance(keys, str) or len(keys) > MAX_KEYS or not all(map(is_storable, keys)):
        raise QueryError(f"Facets take a list of up to {MAX_KEYS} keys of the payload.")
    if limit < 1:
        raise QueryError(f"The limit must be 1 or more, not {limit}.")


def count_observations(connection: Connection) -> dict[Kind, int]:
    """How many observations of each kind there are."""
    counted = select(observations.c.kind, func.count()).where(KNOWN).group_by(observations.c.kind)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(counted)}
    return dict.fromkeys(KIND_OF.values(), 0) | cast(dict[Kind, int], counts)


def describe_observations(counts: Mapping[Kind, int]) -> str:
    """Counts of observations as people read them, without those of which there are none."""
    return ", ".join(f"{number} {kind.removesuffix('s')}s" for kind, number in counts.items() if number)


def sample_editions(connection: Connection, count: int) -> Int64[np.ndarray, " e"]:
    """Editions that lie evenly, rising: so many, or all of fewer."""
    first, last, there = connection.execute(
        select(func.min(items.c.edition), func.max(items.c.edition), func.count())
    ).one()
    if there <= count:
        return np.array(sorted(connection.scalars(select(items.c.edition))), np.int64)
    marks = np.linspace(first, last, count).astype(int).tolist()
    following = select(func.min(items.c.edition)).where(items.c.edition >= bindparam("mark"))
    found = np.unique([connection.scalar(following, {"mark": mark}) for mark in marks]).astype(np.int64)
    if len(found) == count:
        return found
    # So much has ended that numbers lead to the same: editions are counted, a second for a million.
    place = func.row_number().over(order_by=items.c.edition).label("place")
    ranked = select(items.c.edition, place).subquery()
    wanted = np.linspace(1, there, count).astype(int).tolist()
    chosen = select(ranked.c.edition).where(ranked.c.place.in_(wanted))
    return np.array(sorted(connection.scalars(chosen)), np.int64)


def editions_of(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """The present edition of each of these items that is there."""
    chosen = select(items.c.id, items.c.edition).where(items.c.id.in_(VALUES))
    wanted = list(filter(is_storable, ids))
    return {row.id: row.edition for row in item_rows.read_rows(connection, chosen, wanted)}


def read_items(connection: Connection, rows: Sequence[TableRow]) -> list[Item]:
    """Items of these rows, with their observations in the order they were given; see `Item.damaged`."""
    these = observations.c.edition.in_([row["edition"] for row in rows])
    every: dict[int, list[Any]] = {row["edition"]: [] for row in rows}
    for one in connection.execute(select(observations).where(these, KNOWN).order_by(observations.c.row)):
        every[one.edition].append(one)
    return [_item_of(row, every[row["edition"]]) for row in rows]


def _item_of(row: TableRow, its: Sequence[Any]) -> Item:
    sound = tuple(observation_of(one) for one in its if is_sound(one))
    damaged = tuple(_damaged_observation(one) for one in its if not is_sound(one))
    own = [row[column.name] for column in items.columns]  # a sorted page has a value beside them
    if not is_whole_item(own):
        return Item(row["id"], sound, {}, notes=(DAMAGED_ROW,), damaged=damaged, whole=False)
    payload, (files, notes) = item_rows.payload(row["payload"]), item_rows.parse_files(row["files"])
    return Item(row["id"], sound, payload, files, notes, damaged)


def items_of(connection: Connection, ids: Sequence[str]) -> dict[str, Item]:
    """Each of these items that is there, with its observations in the order they were given."""
    chosen = select(items).where(items.c.id.in_(VALUES))
    rows = item_rows.read_rows(connection, chosen, list(filter(is_storable, ids)))
    return {item.id: item for item in read_items(connection, [row._mapping for row in rows])}


def read_item(connection: Connection, name: str) -> Item | None:
    return items_of(connection, [name]).get(name)


def _damaged_observation(row: Any) -> Observation:  # noqa: ANN401 (a row of `observations`)
    """What is left of one: its text or picture only if that is what was written."""
    return replace(observation_of(row), feature=np.empty(0, np.float32))


def list_ids(connection: Connection, where: Filter | None = None) -> list[str]:
    return sorted(connection.scalars(select(items.c.id).where(_holds(where))))


def page_by_id(
    connection: Connection, after: str | None, limit: int, where: Filter | None = None
) -> tuple[list[Item], str | None]:
    """Items in the order of their ids, from behind one of them; and the last of them, if more may follow."""
    check_page(after, limit)
    query = select(items).where(_holds(where)).order_by(items.c.id)
    if after is not None:
        query = query.where(items.c.id > after)
    rows, more = _rows_of_page(connection, query, limit)
    return read_items(connection, rows), rows[-1]["id"] if more else None


def _rows_of_page(connection: Connection, query: Select[Any], limit: int) -> tuple[list[TableRow], bool]:
    """So many rows, fewer if their payloads are long; and whether more may follow."""
    rows: list[TableRow] = []
    size = 0
    options = {"yield_per": FETCHED_TOGETHER}
    with connection.execute(query.limit(limit), execution_options=options) as result:
        for row in result.mappings():
            rows.append(row)
            size += len(row["payload"])
            if size >= PAGE_BYTES:
                return rows, True
    return rows, len(rows) == limit


def every_item(connection: Connection, where: Filter | None = None) -> Iterator[Item]:
    """All items in the order of their ids, or those that a filter lets through, read page by page."""
    after: str | None = None
    while True:
        page, after = page_by_id(connection, after, EVERY_PAGE, where)
        yield from page
        if after is None:
            return


def count_facets(
    connection: Connection, keys: Sequence[str], where: Choice, limit: int
) -> dict[str, list[ValueCount]]:
    """The values of each key that most items have, with their counts."""
    check_facets(keys, limit)
    return {key: _facet(connection, key, where, limit) for key in keys}


def number_spans(connection: Connection, keys: Sequence[str], where: Choice = None) -> dict[str, NumberSpan]:
    """The span of each key that has numbers."""
    check_facets(keys)
    number = facts.c.number
    edition = facts.c.edition
    several = func.count(edition.distinct())
    query = select(facts.c.key, func.min(number), func.max(number), several).group_by(facts.c.key)
    chosen = facts.c.key.in_(keys), facts.c.kind == "number", number.is_not(None), _among(where)
    return {key: NumberSpan(*rest) for key, *rest in connection.execute(query.where(*chosen))}


def _facet(connection: Connection, key: str, where: Choice, limit: int) -> list[ValueCount]:
    """Each kind of value by its own index; ties in the order of kinds, then of values."""
    numbers = facts.c.number
    of_key = facts.c.key == key
    kinds: list[tuple[ValueKind, ColumnElement[Any], Condition]] = [
        ("bool", numbers, and_(of_key, facts.c.kind == "bool", numbers.is_not(None))),
        ("number", numbers, and_(of_key, facts.c.kind == "number", numbers.is_not(None))),
        ("text", facts.c.text, and_(of_key, facts.c.text.is_not(None))),
    ]
    counts: list[ValueCount] = []
    for kind, column, chosen in kinds:
        query = select(column, func.count()).where(chosen, _among(where)).group_by(column)
        most = connection.execute(query.order_by(func.count().desc(), column).limit(limit))
        counts += [ValueCount(FactValue(kind, value).scalar, many) for value, many in most]
    return sorted(counts, key=lambda facet: -facet.count)[:limit]


def _among(where: Choice) -> Condition:
    """The filter as a condition on facts."""
    return true() if where is None else facts.c.edition.in_(select(items.c.edition).where(_holds(where)))


def _holds(where: Choice) -> Condition:
    if where is None:
        return true()
    return items.c.id.in_(where) if isinstance(where, list) else filter_condition(where)


MAX_PAGE = 1_000  # items
EVERY_PAGE = 500  # that are in memory where all are read
PAGE_BYTES = 8 << 20  # of payloads, with which a page ends
FETCHED_TOGETHER = 32  # rows; a payload may have a megabyte
MAX_KEYS = 64  # counted at once
WRITTEN = re.compile(r"(-?)payload\.(.+)", re.DOTALL)
MARK = re.compile(r"([0-9]{1,18})(?: (.+))?", re.DOTALL)  # an edition, and its number or text in JSON


class ItemOrderError(MultifoldError):
    """An order that nothing can be listed in."""


@dataclass(frozen=True)
class ItemOrder:
    """By a key of the payload; by none: the newest first."""

    key: str | None
    descending: bool


def parse_order(text: str) -> ItemOrder:
    parts = WRITTEN.fullmatch(text)
    if text != "newest" and (parts is None or len(parts[2]) > LONGEST_KEY or not is_storable(parts[2])):
        raise ItemOrderError("Items are sorted by 'id', 'newest', 'payload.KEY' or '-payload.KEY'.")
    return ItemOrder(parts[2], bool(parts[1])) if parts else ItemOrder(None, True)


def page_in_order(
    connection: Connection, order: ItemOrder, after: str | None, limit: int, where: Filter | None = None
) -> tuple[list[Item], str | None]:
    """A page, and the mark that begins the next one, if there may be one."""
    check_page(after, limit)
    if order.key is None:
        older = true() if after is None else items.c.edition < _read_mark(after)[0]
        query = select(items).where(older).order_by(items.c.edition.desc())
    else:
        query = _by_value(order.key, _sorted_column(connection, order.key), order.descending, after)
    rows, more = _rows_of_page(connection, query.where(_holds(where)), limit)
    if not more:
        return read_items(connection, rows), None
    last = rows[-1]
    value = f" {json.dumps(last['value'])}" if "value" in last else ""
    return read_items(connection, rows), f"{last['edition']}{value}"


def _sorted_column(connection: Connection, key: str) -> SortedColumn:
    """What a key is sorted by: its numbers, or its texts if it has none."""
    numbers = select(facts.c.edition).where(_has(key, facts.c.number)).limit(1)
    return facts.c.text if connection.scalar(numbers) is None else facts.c.number


def _has(key: str, column: SortedColumn) -> Condition:
    kind = "number" if column is facts.c.number else "text"
    return and_(facts.c.key == key, facts.c.kind == kind, column.is_not(None))


def _by_value(key: str, column: SortedColumn, descending: bool, after: str | None) -> Select[Any]:
    first = func.max(column) if descending else func.min(column)
    of_key = _has(key, column)
    best = select(facts.c.edition, first.label("value")).where(of_key).group_by(facts.c.edition).subquery()
    rank = best.c.value.desc() if descending else best.c.value
    query = select(items, best.c.value).join(best, best.c.edition == items.c.edition)
    behind: Condition = true()
    if after is not None:
        edition, last = _read_mark(after, str if column is facts.c.text else (int, float))
        further = best.c.value < last if descending else best.c.value > last
        behind = or_(further, and_(best.c.value == last, items.c.edition > edition))
    return query.where(behind).order_by(rank, items.c.edition)


def _read_mark(mark: str, kind: Any = (int, float)) -> tuple[int, Any]:  # noqa: ANN401 (types of values)
    """The edition and the value that a page ended with."""
    if parts := MARK.fullmatch(mark):
        try:
            value = json.loads(parts[2] or "0")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, kind) and (isinstance(value, str) or math.isfinite(value)):
            return int(parts[1]), value
    raise ItemOrderError(f"No page of this order ends with {mark[:40]!r}.")
