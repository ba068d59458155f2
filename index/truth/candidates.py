"""The table of facts: what each edition can be filtered by, and filters as conditions on items."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Int64

from index.base import Ids
from index.truth import codec
from index.truth.facts import Value, facts_of, following
from index.truth.filters import And, Exists, Filter, Leaf, Not, OneOf, Or, Prefix, Range
from index.truth.schema import facts, items
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import ColumnElement, Connection, Select, and_, insert, not_, or_, select, true

Condition = ColumnElement[bool]


def write(connection: Connection, items: Iterable[tuple[int, str]]) -> None:
    """Note the facts of editions, given each with its payload as JSON."""
    rows = [row for edition, payload in items for row in _rows(edition, payload)]
    if rows:
        connection.execute(insert(facts), rows)


def holds(where: Filter) -> Condition:
    """The filter as a condition on rows of `items`."""
    if isinstance(where, And):
        return and_(true(), *map(holds, where.parts))
    if isinstance(where, Or):
        return or_(*map(holds, where.parts))
    if isinstance(where, Not):
        return not_(holds(where.part))
    return or_(*(items.c.edition.in_(found) for found in editions(where)))


def editions(leaf: Leaf, after: int | None = None) -> list[Select[Any]]:
    """Queries for the editions with a fact that the leaf asks for, for all of them or those `after` one.

    Each uses one index: the key's, or, as a concatenation has none, that of the newer editions.
    """
    key = facts.c.key == leaf.key
    if after is not None:
        key = and_(facts.c.key.concat("") == leaf.key, facts.c.edition > after)
    return [select(facts.c.edition).where(key, condition) for condition in _conditions(leaf)]


def editions_of(connection: Connection, leaf: Leaf, after: int | None) -> Ids:
    """The editions with a fact that the leaf asks for, each perhaps several times; `after` some, or all."""
    found = chain.from_iterable(map(connection.scalars, editions(leaf, after)))
    return np.fromiter(found, np.int64)


def editions_after(connection: Connection, edition: int) -> Int64[np.ndarray, "e 2"]:
    """Newer editions, rising, and how many observations each has."""
    query = select(items.c.edition, items.c.size).where(items.c.edition > edition).order_by(items.c.edition)
    numbers = np.fromiter(chain.from_iterable(connection.execute(query)), np.int64)
    return numbers.reshape(-1, 2)


def _conditions(leaf: Leaf) -> list[Condition]:
    if isinstance(leaf, Exists):
        return [true()]
    if isinstance(leaf, Prefix):
        end = following(leaf.text)
        ends = true() if end is None else facts.c.text < end
        return [and_(facts.c.text >= leaf.text, ends)]
    if isinstance(leaf, Range):
        return [_between(leaf)]
    return list(_among(leaf))


def _among(leaf: OneOf) -> Iterator[Condition]:
    texts = [value.text for value in leaf.values if value.kind == "text"]
    if texts or not leaf.values:
        yield facts.c.text.in_(texts)
    for kind in ("number", "bool"):
        numbers = [value.number for value in leaf.values if value.kind == kind]
        if numbers:
            yield and_(facts.c.number.in_(numbers), facts.c.kind == kind)


def _between(leaf: Range) -> Condition:
    bounds = {"gt": leaf.gt, "gte": leaf.gte, "lt": leaf.lt, "lte": leaf.lte}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    of_text = any(isinstance(bound, str) for bound in given.values())
    column: Any = facts.c.text if of_text else facts.c.number
    compared = {"gt": column.__gt__, "gte": column.__ge__, "lt": column.__lt__, "lte": column.__le__}
    return and_(
        facts.c.kind == ("text" if of_text else "number"),
        *(compared[name](bound) for name, bound in given.items()),
    )


def _rows(edition: int, payload: str) -> Iterator[dict[str, object]]:
    for key, value in facts_of(codec.payload(payload)):
        yield {"edition": edition, "key": key, **_columns(value)}


def _columns(value: Value) -> dict[str, object]:
    return {"kind": value.kind, "text": value.text, "number": value.number}
