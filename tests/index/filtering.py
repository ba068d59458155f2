"""Filters taken literally, payload by payload: what the fast ones have to agree with."""

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

Raw = Mapping[str, Any]

TEXTS = st.sampled_from(
    ["", "a", "ab", "b", "é", "é…", "\ud7ff", "\ue000", "\U0010ffff", "a" * 300, "a" * 301]
)
NUMBERS = st.sampled_from([-1.5, -0.0, 0, 1, 1.0, 2, 2**70])
SCALARS = TEXTS | NUMBERS | st.booleans()
KEYS = st.sampled_from(["x", "y", "deep.x", "deep.y"])
LEVEL = st.dictionaries(
    st.sampled_from(["x", "y"]), SCALARS | st.none() | st.lists(SCALARS | st.none(), max_size=3), max_size=2
)
PAYLOADS = st.builds(
    lambda top, deep: {**top, **deep}, LEVEL, st.just({}) | LEVEL.map(lambda one: {"deep": one})
)
SHORT = TEXTS.filter(lambda text: len(text) < 100)


def bounds(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    return st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), of, min_size=1, max_size=2)


CONDITIONS = (
    SCALARS
    | bounds(NUMBERS)
    | bounds(SHORT)
    | st.lists(SCALARS, max_size=4).map(lambda values: {"in": values})
    | SHORT.map(lambda text: {"prefix": text})
    | st.booleans().map(lambda there: {"exists": there})
)
LEAVES = st.dictionaries(KEYS, CONDITIONS, max_size=2)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"and": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"or": parts})
        | inner.map(lambda part: {"not": part})
    ),
    max_leaves=5,
)


def lets_through(where: Raw, payload: Raw) -> bool:
    """Whether the filter lets an item with this payload through."""
    return all(_holds(key, value, payload) for key, value in where.items())


def _holds(key: str, value: Any, payload: Raw) -> bool:  # noqa: ANN401 (JSON)
    if key == "and":
        return all(lets_through(part, payload) for part in value)
    if key == "or":
        return any(lets_through(part, payload) for part in value)
    if key == "not":
        return not lets_through(value, payload)
    found = list(_values(key.split("."), payload))
    if not isinstance(value, dict):
        return any(_equal(one, value) for one in found)
    ordered = {name: bound for name, bound in value.items() if name in ("gt", "gte", "lt", "lte")}
    return all(
        [
            not ordered or any(_within(one, ordered) for one in found),
            "in" not in value or any(_equal(one, other) for one in found for other in value["in"]),
            "prefix" not in value
            or any(isinstance(one, str) and one.startswith(value["prefix"]) for one in found),
            "exists" not in value or bool(found) == value["exists"],
        ]
    )


def _values(path: list[str], value: Any) -> Iterator[Any]:  # noqa: ANN401 (JSON)
    if isinstance(value, list):
        if not path:
            yield value
        for one in value:
            yield from _values(path, one)
    elif not path and value is not None:
        yield value
    elif path and isinstance(value, dict):
        yield from _values(path[1:], value.get(path[0]))


def _equal(left: Any, right: Any) -> bool:  # noqa: ANN401 (JSON)
    return _kind(left) == _kind(right) and left == right


def _within(value: Any, ordered: Raw) -> bool:  # noqa: ANN401 (JSON)
    pairs = [(value, bound) for bound in ordered.values()]
    if any(_kind(one) != _kind(bound) or _kind(one) not in ("str", "number") for one, bound in pairs):
        return False
    compared = {"gt": lambda b: value > b, "gte": lambda b: value >= b}
    compared |= {"lt": lambda b: value < b, "lte": lambda b: value <= b}
    return all(compared[name](bound) for name, bound in ordered.items())


def _kind(value: Any) -> str:  # noqa: ANN401 (JSON)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number"
    return type(value).__name__
