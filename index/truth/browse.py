"""Items by their payload, without any vector: counted, listed, paged through, and the values they have.

Pages in other orders than that of ids are in ordering.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from index.truth import codec
from index.truth.candidates import Condition, holds
from index.truth.facts import Scalar, Value, ValueKind
from index.truth.filters import Filter
from index.truth.schema import facts, items, observations
from multifold.errors import needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from sqlalchemy import ColumnElement, Connection, and_, func, select, true


@dataclass(frozen=True)
class Facet:
    """A value, and how many items have it."""

    value: Scalar
    count: int


@dataclass(frozen=True)
class Span:
    """From the least to the greatest number of a key, and how many items have one."""

    least: float
    greatest: float
    count: int


def count(connection: Connection, where: Filter | None = None) -> int:
    """How many items there are."""
    return connection.scalar(select(func.count()).select_from(items).where(_holds(where))) or 0


def ids(connection: Connection, where: Filter | None = None) -> list[str]:
    """The ids of items, sorted."""
    return sorted(connection.scalars(select(items.c.id).where(_holds(where))))


def page(connection: Connection, after: str | None, limit: int, where: Filter | None = None) -> list[Item]:
    """Items in the order of their ids, from behind one of them."""
    query = select(items).where(_holds(where)).order_by(items.c.id).limit(limit)
    if after is not None:
        query = query.where(items.c.id > after)
    return read(connection, connection.execute(query).mappings().all())


def read(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> list[Item]:
    """Items of these rows, with their observations."""
    editions = [row["edition"] for row in rows]
    of_these = select(observations).where(observations.c.edition.in_(editions))
    seen = connection.execute(of_these.order_by(observations.c.row)).mappings()
    by_edition = {edition: [*group] for edition, group in groupby(seen, itemgetter("edition"))}
    return [codec.item(row, by_edition.get(row["edition"], [])) for row in rows]


def facets(
    connection: Connection, keys: Sequence[str], where: Filter | None, limit: int
) -> dict[str, list[Facet]]:
    """The values of each key that most items have, with their counts."""
    return {key: _facet(connection, key, where, limit) for key in keys}


def spans(connection: Connection, keys: Sequence[str], where: Filter | None) -> dict[str, Span]:
    """The span of each key that has numbers."""
    number, edition = facts.c.number, facts.c.edition
    several = func.count(edition.distinct())
    query = select(facts.c.key, func.min(number), func.max(number), several).where(
        facts.c.key.in_(keys), facts.c.kind == "number", number.is_not(None), _among(where)
    )
    return {key: Span(*rest) for key, *rest in connection.execute(query.group_by(facts.c.key))}


def _facet(connection: Connection, key: str, where: Filter | None, limit: int) -> list[Facet]:
    """Each kind of value by its own index; ties in the order of kinds, then of values."""
    numbers, of_key = facts.c.number, facts.c.key == key
    kinds: list[tuple[ValueKind, ColumnElement[Any], Condition]] = [
        ("bool", numbers, and_(of_key, facts.c.kind == "bool", numbers.is_not(None))),
        ("number", numbers, and_(of_key, facts.c.kind == "number", numbers.is_not(None))),
        ("text", facts.c.text, and_(of_key, facts.c.text.is_not(None))),
    ]
    found: list[Facet] = []
    for kind, column, chosen in kinds:
        query = select(column, func.count()).where(chosen, _among(where)).group_by(column)
        most = connection.execute(query.order_by(func.count().desc(), column).limit(limit))
        found += [Facet(Value(kind, value).scalar, many) for value, many in most]
    return sorted(found, key=lambda facet: -facet.count)[:limit]


def _among(where: Filter | None) -> Condition:
    """The filter as a condition on facts."""
    return true() if where is None else facts.c.edition.in_(select(items.c.edition).where(holds(where)))


def _holds(where: Filter | None) -> Condition:
    return true() if where is None else holds(where)
