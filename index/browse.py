"""Items by their payload, without any vector: counted, listed, paged through, and the values they have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from index import codec
from index.candidates import Condition, holds
from index.facts import Scalar, Value
from index.filters import Filter
from index.schema import facts, items, observations
from multifold.errors import needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from sqlalchemy import Connection, func, select, true


@dataclass(frozen=True)
class Facet:
    """A value, and how many items have it."""

    value: Scalar
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
    rows = connection.execute(query).mappings().all()
    editions = [row["edition"] for row in rows]
    of_these = select(observations).where(observations.c.edition.in_(editions))
    seen = connection.execute(of_these.order_by(observations.c.row)).mappings()
    by_edition = {edition: [*group] for edition, group in groupby(seen, itemgetter("edition"))}
    return [codec.item(row, by_edition.get(row["edition"], [])) for row in rows]


def facets(
    connection: Connection, keys: Sequence[str], where: Filter | None, limit: int
) -> dict[str, list[Facet]]:
    """The values of each key that most items have, with their counts."""
    return {key: list(_facet(connection, key, where, limit)) for key in keys}


def _facet(connection: Connection, key: str, where: Filter | None, limit: int) -> Iterator[Facet]:
    value = facts.c.kind, facts.c.text, facts.c.number
    query = select(*value, func.count()).where(facts.c.key == key, facts.c.kind != "other")
    if where is not None:
        query = query.where(facts.c.edition.in_(select(items.c.edition).where(holds(where))))
    most = query.group_by(*value).order_by(func.count().desc(), *value).limit(limit)
    for kind, text, number, many in connection.execute(most):
        yield Facet(Value(kind, number if text is None else text).scalar, many)


def _holds(where: Filter | None) -> Condition:
    return true() if where is None else holds(where)
