"""Filters: parsed from JSON, and as conditions on the table of facts (see item_rows.py).

    {"colour": "red"}                     equality: text, number, true, false
    {"price": {"gte": 1, "lt": 5}}        gt, gte, lt, lte: numbers, or texts by code points
    {"tag": {"in": ["a", "b"]}}           any of these
    {"name": {"prefix": "ch"}}            a text that begins so
    {"size.w": {"exists": true}}          a value that is there and not null
    {"or": [{…}, {…}]}, {"and": […]}, {"not": {…}}

Several keys or operators in one object are "and". A list matches if any of its elements does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int64
from sqlalchemy import ColumnElement, Connection, Select, and_, not_, or_, select, true

from index.contracts import Ids
from index.store.database import is_storable
from index.store.item_rows import (
    PRESENT,
    TEXT_HEAD,
    VALUES,
    FactValue,
    PayloadFact,
    fact_value,
    read_rows,
)
from index.store.schema import facts, items
from multifold.errors import MultifoldError
from multifold.types import LONGEST_KEY

MAX_FILTER_DEPTH = 16
MAX_FILTER_TERMS = 1_000  # conditions and values together
MAX_COMPARED_TEXT = 100_000  # characters of a text that is compared as a whole
COMPARISONS: Mapping[str, Callable[..., Any]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
RANGE = tuple(COMPARISONS)
OPERATORS = ("in", "prefix", "exists")
JOINS = ("and", "or", "not")
WITH_DOLLAR = tuple(f"${name}" for name in (*RANGE, *OPERATORS, *JOINS))  # as other databases write them
JOINS_ELSEWHERE = {"must": "and", "should": "or", "must_not": "not"}  # as Qdrant and Elasticsearch write them
LAST_LETTER = 0x10FFFF
FACTS = select(facts).where(facts.c.edition.in_(VALUES))


class FilterError(MultifoldError):
    """A filter that cannot be parsed."""


@dataclass(frozen=True)
class OneOfFilter:
    """The key has one of these values."""

    key: str
    values: tuple[FactValue, ...]


@dataclass(frozen=True)
class RangeFilter:
    """One value of the key lies within all bounds, which are numbers or texts."""

    key: str
    gt: str | float | None = None
    gte: str | float | None = None
    lt: str | float | None = None
    lte: str | float | None = None

    @property
    def of_texts(self) -> bool:
        """Whether its bounds are texts."""
        return any(isinstance(bound, str) for bound in (self.gt, self.gte, self.lt, self.lte))


@dataclass(frozen=True)
class PrefixFilter:
    key: str
    text: str


@dataclass(frozen=True)
class ExistsFilter:
    key: str


@dataclass(frozen=True)
class AndFilter:
    """All of them hold; without parts, always."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True)
class OrFilter:
    parts: tuple["Filter", ...]


@dataclass(frozen=True)
class NotFilter:
    part: "Filter"


LeafFilter: TypeAlias = OneOfFilter | RangeFilter | PrefixFilter | ExistsFilter
Filter: TypeAlias = LeafFilter | AndFilter | OrFilter | NotFilter


def parse_filter(raw: Mapping[str, Any]) -> Filter:
    parsed = _object(raw, 1)
    if _size(parsed) > MAX_FILTER_TERMS:
        raise FilterError(f"The filter has more than {MAX_FILTER_TERMS} conditions and values: send fewer.")
    return parsed


def _object(raw: object, depth: int) -> Filter:
    if not isinstance(raw, Mapping):
        raise FilterError(f'A filter is an object such as {{"colour": "red"}}, not {_shown(raw)}.')
    if depth > MAX_FILTER_DEPTH:
        raise FilterError(f"The filter is nested more than {MAX_FILTER_DEPTH} deep.")
    return all_of([_entry(str(key), value, depth) for key, value in raw.items()])


def _entry(key: str, value: object, depth: int) -> Filter:
    if key == "not":
        return NotFilter(_object(value, depth + 1))
    if key in JOINS:
        if not isinstance(value, list) or not value:
            raise FilterError(f"{key!r} takes a list of filters, not {_shown(value)}.")
        parts = tuple(_object(part, depth + 1) for part in value)
        return AndFilter(parts) if key == "and" else OrFilter(parts)
    if key in WITH_DOLLAR and isinstance(value, (list, Mapping)):
        raise FilterError(f"{key!r} is written {key[1:]!r}, without the dollar.")
    if key in JOINS_ELSEWHERE and isinstance(value, (list, Mapping)):
        raise FilterError(
            f'{key!r} is written {JOINS_ELSEWHERE[key]!r} here, with filters such as {{"colour": "red"}}.'
        )
    if len(key) > LONGEST_KEY or not is_storable(key):
        raise FilterError(f"A key has up to {LONGEST_KEY} storable characters; {_shown(key)} is none.")
    return all_of(_conditions(key, value)) if isinstance(value, Mapping) else _one_of(key, [value])


def _conditions(key: str, raw: Mapping[str, Any]) -> list[Filter]:
    for name in raw:
        if name in WITH_DOLLAR:
            raise FilterError(f"{name!r} is written {name[1:]!r}, without the dollar.")
        if name not in RANGE and name not in OPERATORS:
            raise FilterError(
                f"{_shown(name)} is no operator; they are {', '.join((*RANGE, *OPERATORS))}, and beside the "
                f"keys {', '.join(JOINS)}. A nested value is named with dots: {_shown(f'{key}.{name}')}."
            )
    if not raw:
        raise FilterError(f"The condition on {_shown(key)} is empty.")
    bounds = {name: raw[name] for name in RANGE if name in raw}
    others = [_operator(name, key, value) for name, value in raw.items() if name in OPERATORS]
    return [_range(key, bounds), *others] if bounds else others


def _one_of(key: str, scalars: Iterable[object]) -> Filter:
    return OneOfFilter(key, tuple(dict.fromkeys(_value(key, scalar) for scalar in scalars)))


def _operator(name: str, key: str, raw: object) -> Filter:
    if name == "prefix":
        return PrefixFilter(key, _short(raw, "'prefix' takes a text"))
    if name == "in":
        if not isinstance(raw, list):
            raise FilterError(f"'in' takes a list of values, not {_shown(raw)}.")
        return _one_of(key, raw)
    if not isinstance(raw, bool):
        raise FilterError(f"'exists' takes true or false, not {_shown(raw)}.")
    return ExistsFilter(key) if raw else NotFilter(ExistsFilter(key))


def _range(key: str, raw: Mapping[str, object]) -> Filter:
    bounds = {name: _bound(name, bound) for name, bound in raw.items()}
    if len({isinstance(bound, str) for bound in bounds.values()}) > 1:
        raise FilterError(f"The bounds of {_shown(key)} are all numbers or all texts, not some of each.")
    return RangeFilter(key, **bounds)


def _bound(name: str, raw: object) -> str | float:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        value = fact_value(raw)
        if value.number is not None:
            return value.number
    return _short(raw, f"{name!r} takes a number or a text")


def _short(raw: object, wanted: str) -> str:
    """A text that the beginning of a long one can be compared with."""
    if not isinstance(raw, str) or len(raw) > TEXT_HEAD or not is_storable(raw):
        raise FilterError(f"{wanted} of up to {TEXT_HEAD} storable characters, not {_shown(raw)}.")
    return raw


def _value(key: str, raw: object) -> FactValue:
    value = PRESENT
    if isinstance(raw, (bool, int, float)) or (isinstance(raw, str) and len(raw) <= MAX_COMPARED_TEXT):
        value = fact_value(raw)
    if value == PRESENT:
        hint = ' (write {"exists": false} for what is missing, {"in": […]} for one of several)'
        raise FilterError(
            f"{_shown(key)} is compared with a text, a finite number, true or false, not {_shown(raw)}{hint}."
        )
    return value


def all_of(parts: Sequence[Filter]) -> Filter:
    """A filter that lets through what all of some do."""
    return parts[0] if len(parts) == 1 else AndFilter(tuple(parts))


def ranges_of(where: Filter) -> Iterator[RangeFilter]:
    """The comparisons in a filter."""
    if isinstance(where, RangeFilter):
        yield where
    elif isinstance(where, NotFilter):
        yield from ranges_of(where.part)
    elif isinstance(where, (AndFilter, OrFilter)):
        for part in where.parts:
            yield from ranges_of(part)


def _size(part: Filter) -> int:
    if isinstance(part, (AndFilter, OrFilter)):
        return 1 + sum(_size(one) for one in part.parts)
    if isinstance(part, NotFilter):
        return 1 + _size(part.part)
    return max(1, len(part.values)) if isinstance(part, OneOfFilter) else 1


def _shown(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else f"{text[:57]}…"


Condition = ColumnElement[bool]


def filter_condition(where: Filter) -> Condition:
    """The filter as a condition on rows of `items`."""
    if isinstance(where, AndFilter):
        return and_(true(), *map(filter_condition, where.parts))
    if isinstance(where, OrFilter):
        return or_(*map(filter_condition, where.parts))
    if isinstance(where, NotFilter):
        return not_(filter_condition(where.part))
    return or_(*(items.c.edition.in_(query) for query in leaf_queries(where)))


def leaf_queries(leaf: LeafFilter, after: int | None = None) -> list[Select[Any]]:
    """Queries for the editions with a fact that the leaf asks for, for all of them or those `after` one.

    Each uses one index: the key's, or, as a concatenation has none, that of the newer editions.
    """
    key = facts.c.key == leaf.key
    if after is not None:
        key = and_(facts.c.key.concat("") == leaf.key, facts.c.edition > after)
    return [select(facts.c.edition).where(key, condition) for condition in _leaf_conditions(leaf)]


def matching_editions(connection: Connection, leaf: LeafFilter, after: int | None) -> Ids:
    """The editions with a fact that the leaf asks for, each perhaps several times; `after` some, or all."""
    editions = chain.from_iterable(map(connection.scalars, leaf_queries(leaf, after)))
    return np.fromiter(editions, np.int64)


def read_facts(connection: Connection, editions: Sequence[int]) -> dict[int, list[PayloadFact]]:
    """What each of these editions can be filtered by."""
    read: dict[int, list[PayloadFact]] = {edition: [] for edition in editions}
    for row in read_rows(connection, FACTS, editions):
        content = row.number if row.text is None else row.text
        read[row.edition].append(PayloadFact(row.key, FactValue(row.kind, content)))
    return read


def newer_editions(connection: Connection, edition: int) -> Int64[np.ndarray, "e 2"]:
    """Newer editions, rising, and how many observations each has."""
    query = select(items.c.edition, items.c.size).where(items.c.edition > edition).order_by(items.c.edition)
    numbers = np.fromiter(chain.from_iterable(connection.execute(query)), np.int64)
    return numbers.reshape(-1, 2)


def next_after_prefix(prefix: str) -> str | None:
    """The least text above all that begin so, by code points; None if there is none."""
    for place in reversed(range(len(prefix))):
        letter = ord(prefix[place]) + 1
        if letter <= LAST_LETTER:
            return prefix[:place] + chr(0xE000 if letter == 0xD800 else letter)
    return None


def _leaf_conditions(leaf: LeafFilter) -> list[Condition]:
    if isinstance(leaf, ExistsFilter):
        return [true()]
    if isinstance(leaf, PrefixFilter):
        end = next_after_prefix(leaf.text)
        ends = true() if end is None else facts.c.text < end
        return [and_(facts.c.text >= leaf.text, ends)]
    if isinstance(leaf, RangeFilter):
        return [_between(leaf)]
    return list(_among(leaf))


def _among(leaf: OneOfFilter) -> Iterator[Condition]:
    texts = [value.text for value in leaf.values if value.kind == "text"]
    if texts or not leaf.values:
        yield facts.c.text.in_(texts)
    for kind in ("number", "bool"):
        numbers = [value.number for value in leaf.values if value.kind == kind]
        if numbers:
            yield and_(facts.c.number.in_(numbers), facts.c.kind == kind)


def _between(leaf: RangeFilter) -> Condition:
    bounds = {name: bound for name in RANGE if (bound := getattr(leaf, name)) is not None}
    kind = "text" if leaf.of_texts else "number"
    compared = (COMPARISONS[name](facts.c[kind], bound) for name, bound in bounds.items())
    return and_(facts.c.kind == kind, *compared)
