"""Which items a search may find, said of their payload: parsed from JSON, small and frozen.

    {"colour": "red"}                     equality: text, number, true, false
    {"price": {"gte": 1, "lt": 5}}        gt, gte, lt, lte: numbers, or texts by code points
    {"tag": {"in": ["a", "b"]}}           any of these
    {"name": {"prefix": "ch"}}            a text that begins so
    {"size.w": {"exists": true}}          a value that is there and not null
    {"or": [{…}, {…}]}, {"and": […]}, {"not": {…}}

Several keys or operators in one object are "and". A list matches if any of its elements does. Facts.py says
which values of a payload count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from index.truth.codec import storable
from index.truth.facts import HEAD, LONGEST_KEY, THERE, Value, value_of
from multifold.errors import MultifoldError

DEEPEST = 16
MOST = 1_000  # conditions and values together
LONGEST = 100_000  # characters of a text that is compared as a whole
RANGE = ("gt", "gte", "lt", "lte")
JOINS = ("and", "or", "not")


class FilterError(MultifoldError):
    """A filter that nobody understands."""


@dataclass(frozen=True)
class OneOf:
    """The key has one of these values."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Range:
    """One value of the key lies within all bounds, which are numbers or texts."""

    key: str
    gt: str | float | None = None
    gte: str | float | None = None
    lt: str | float | None = None
    lte: str | float | None = None


@dataclass(frozen=True)
class Prefix:
    """A text of the key begins so."""

    key: str
    text: str


@dataclass(frozen=True)
class Exists:
    """The key is there."""

    key: str


@dataclass(frozen=True)
class And:
    """All of them hold; without parts, always."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True)
class Or:
    """One of them holds."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True)
class Not:
    """It does not hold."""

    part: "Filter"


Leaf: TypeAlias = OneOf | Range | Prefix | Exists
Filter: TypeAlias = Leaf | And | Or | Not


def parse(raw: Mapping[str, Any]) -> Filter:
    """The filter that a JSON object describes."""
    parsed = _object(raw, 1)
    if _size(parsed) > MOST:
        raise FilterError(f"The filter has more than {MOST} conditions and values: send fewer.")
    return parsed


def _object(raw: object, depth: int) -> Filter:
    if not isinstance(raw, Mapping):
        raise FilterError(f'A filter is an object such as {{"colour": "red"}}, not {_shown(raw)}.')
    if depth > DEEPEST:
        raise FilterError(f"The filter is nested more than {DEEPEST} deep.")
    return _all([_entry(str(key), value, depth) for key, value in raw.items()])


def _entry(key: str, value: object, depth: int) -> Filter:
    if key == "not":
        return Not(_object(value, depth + 1))
    if key in JOINS:
        if not isinstance(value, list) or not value:
            raise FilterError(f"{key!r} takes a list of filters, not {_shown(value)}.")
        parts = tuple(_object(part, depth + 1) for part in value)
        return And(parts) if key == "and" else Or(parts)
    if len(key) > LONGEST_KEY or not storable(key):
        raise FilterError(f"A key has up to {LONGEST_KEY} storable characters; {_shown(key)} is none.")
    return _all(_conditions(key, value)) if isinstance(value, Mapping) else _one_of(key, [value])


def _conditions(key: str, raw: Mapping[str, Any]) -> list[Filter]:
    for name in raw:
        if name not in RANGE and name not in OPERATORS:
            raise FilterError(
                f"{_shown(name)} is no operator; they are {', '.join((*RANGE, *OPERATORS))}, and beside the "
                f"keys {', '.join(JOINS)}. A nested value is named with dots: {_shown(f'{key}.{name}')}."
            )
    if not raw:
        raise FilterError(f"The condition on {_shown(key)} is empty.")
    bounds = {name: raw[name] for name in RANGE if name in raw}
    others = [OPERATORS[name](key, value) for name, value in raw.items() if name in OPERATORS]
    return [_range(key, bounds), *others] if bounds else others


def _one_of(key: str, scalars: Iterable[object]) -> Filter:
    return OneOf(key, tuple(dict.fromkeys(_value(key, scalar) for scalar in scalars)))


def _in(key: str, raw: object) -> Filter:
    if not isinstance(raw, list):
        raise FilterError(f"'in' takes a list of values, not {_shown(raw)}.")
    return _one_of(key, raw)


def _prefix(key: str, raw: object) -> Filter:
    return Prefix(key, _short(raw, "'prefix' takes a text"))


def _exists(key: str, raw: object) -> Filter:
    if not isinstance(raw, bool):
        raise FilterError(f"'exists' takes true or false, not {_shown(raw)}.")
    return Exists(key) if raw else Not(Exists(key))


OPERATORS: Mapping[str, Callable[[str, object], Filter]] = {"in": _in, "prefix": _prefix, "exists": _exists}


def _range(key: str, raw: Mapping[str, object]) -> Filter:
    bounds = {name: _bound(name, bound) for name, bound in raw.items()}
    if len({isinstance(bound, str) for bound in bounds.values()}) > 1:
        raise FilterError(f"The bounds of {_shown(key)} are all numbers or all texts, not some of each.")
    return Range(key, **bounds)


def _bound(name: str, raw: object) -> str | float:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        value = value_of(raw)
        if value.number is not None:
            return value.number
    return _short(raw, f"{name!r} takes a number or a text")


def _short(raw: object, wanted: str) -> str:
    """A text that the beginning of a long one can be compared with."""
    if not isinstance(raw, str) or len(raw) > HEAD or not storable(raw):
        raise FilterError(f"{wanted} of up to {HEAD} storable characters, not {_shown(raw)}.")
    return raw


def _value(key: str, raw: object) -> Value:
    wanted = isinstance(raw, (str, bool, int, float)) and not (isinstance(raw, str) and len(raw) > LONGEST)
    value = value_of(raw) if wanted else THERE  # type: ignore[arg-type]
    if value == THERE:
        hint = ' (write {"exists": false} for what is missing, {"in": […]} for one of several)'
        raise FilterError(
            f"{_shown(key)} is compared with a text, a finite number, true or false, not {_shown(raw)}{hint}."
        )
    return value


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _size(part: Filter) -> int:
    if isinstance(part, (And, Or)):
        return 1 + sum(_size(one) for one in part.parts)
    if isinstance(part, Not):
        return 1 + _size(part.part)
    return max(1, len(part.values)) if isinstance(part, OneOf) else 1


def _shown(raw: object) -> str:
    told = repr(raw)
    return told if len(told) <= 60 else f"{told[:57]}…"
