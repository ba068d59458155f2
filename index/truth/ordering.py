"""Pages of items in other orders than that of their ids: the newest first, or by a number of the payload.

An order is written `newest`, `payload.price` (the least first) or `-payload.price` (the greatest first). By a
number only items that have one are listed; of several in a list, the first in the order counts. Equal ones
stand as they were written. A page ends with a mark, which begins the next one.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from index.truth import browse
from index.truth.candidates import Condition, holds
from index.truth.codec import storable
from index.truth.facts import LONGEST_KEY
from index.truth.filters import Filter
from index.truth.schema import facts, items
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from sqlalchemy import Connection, Select, and_, func, or_, select, true

WRITTEN = re.compile(r"(-?)payload\.(.+)", re.DOTALL)
MARK = re.compile(r"([0-9]{1,18})(?: (\S{1,32}))?")  # an edition, and its number


class OrderError(MultifoldError):
    """An order that nothing can be listed in."""


@dataclass(frozen=True)
class Order:
    """By a number of the payload; by none: the newest first."""

    key: str | None
    descending: bool


def parse(text: str) -> Order:
    """The order that is written so."""
    found = WRITTEN.fullmatch(text)
    if text != "newest" and (found is None or len(found[2]) > LONGEST_KEY or not storable(found[2])):
        raise OrderError("Items are sorted by 'id', 'newest', 'payload.KEY' or '-payload.KEY'.")
    return Order(found[2], bool(found[1])) if found else Order(None, True)


def page(
    connection: Connection, order: Order, after: str | None, limit: int, where: Filter | None = None
) -> tuple[list[Item], str | None]:
    """A page, and the mark that begins the next one, if there may be one."""
    query = _newest(after) if order.key is None else _by_number(order.key, order.descending, after)
    let_through = true() if where is None else holds(where)
    rows = connection.execute(query.where(let_through).limit(limit)).mappings().all()
    mark = _mark(rows[-1]) if len(rows) == limit else None
    return browse.read(connection, rows), mark


def _newest(after: str | None) -> Select[Any]:
    older = true() if after is None else items.c.edition < _read(after)[0]
    return select(items).where(older).order_by(items.c.edition.desc())


def _by_number(key: str, descending: bool, after: str | None) -> Select[Any]:
    first = func.max(facts.c.number) if descending else func.min(facts.c.number)
    of_key = and_(facts.c.key == key, facts.c.kind == "number", facts.c.number.is_not(None))
    best = select(facts.c.edition, first.label("number")).where(of_key).group_by(facts.c.edition).subquery()
    rank = best.c.number.desc() if descending else best.c.number
    query = select(items, best.c.number).join(best, best.c.edition == items.c.edition)
    return query.where(_behind(best.c.number, descending, after)).order_by(rank, items.c.edition)


def _behind(number: Any, descending: bool, after: str | None) -> Condition:  # noqa: ANN401 (a column)
    if after is None:
        return true()
    edition, last = _read(after)
    further = number < last if descending else number > last
    return or_(further, and_(number == last, items.c.edition > edition))


def _mark(row: Mapping[Any, Any]) -> str:
    return f"{row['edition']} {row['number']!r}" if "number" in row else str(row["edition"])


def _read(mark: str) -> tuple[int, float]:
    found = MARK.fullmatch(mark)
    try:
        edition, number = (int(found[1]), float(found[2] or 0)) if found else (0, math.nan)
    except ValueError:
        edition, number = 0, math.nan
    if not math.isfinite(number):
        raise OrderError(f"No page of this order ends with {mark[:40]!r}.")
    return edition, number
