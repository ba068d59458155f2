"""What of a payload can be filtered by: its values, each under a dotted key. Pure.

An object is walked into: `{"size": {"w": 3}}` has the key `size.w`. A list stands for each of its elements.
Null is as good as nothing. Numbers are float64; a text that is too long for an index is its beginning and
its hash, which is enough to know it by and to compare it with shorter ones.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from index.truth.codec import storable

Scalar: TypeAlias = str | int | float  # and bool, which is an int
ValueKind: TypeAlias = Literal["text", "number", "bool", "other"]

LONGEST_KEY = 255
LONGEST_TEXT = 256  # characters of a stored text
HEAD = LONGEST_TEXT - 65  # so many characters of a longer one are kept, before "…" and its hash
DEEPEST = 16  # keys of more parts are left out
MOST_ELEMENTS = 1_000  # of a list; a longer one is only known to be there
MOST_FACTS = 4_096  # of one item
LAST_LETTER = 0x10FFFF


class Value(NamedTuple):
    """A scalar as it is compared: 1 and true are two values, 1 and 1.0 are one."""

    kind: ValueKind
    content: str | float | None = None

    @property
    def text(self) -> str | None:
        """What stands in the column of texts."""
        return self.content if isinstance(self.content, str) else None

    @property
    def number(self) -> float | None:
        """What stands in the column of numbers."""
        return None if isinstance(self.content, str) else self.content

    @property
    def scalar(self) -> Scalar:
        """What it was; whole numbers as integers."""
        assert self.content is not None
        if self.kind == "bool":
            return bool(self.content)
        whole = isinstance(self.content, float) and self.content.is_integer()
        return int(self.content) if whole else self.content


class Fact(NamedTuple):
    """One value of an item."""

    key: str
    value: Value


THERE = Value("other")  # something that has no order and equals nothing


def facts_of(payload: Mapping[str, Any]) -> list[Fact]:
    """Every value of a payload as JSON has it, each once."""
    found = (fact for name, inner in payload.items() for fact in _walk(name, inner, 1))
    return [fact for fact in dict.fromkeys(found) if storable(fact.key) and len(fact.key) <= LONGEST_KEY]


def value_of(scalar: Scalar) -> Value:
    """A scalar as it is compared."""
    if isinstance(scalar, bool):
        return Value("bool", float(scalar))
    if isinstance(scalar, str):
        return Value("text", shortened(scalar)) if storable(scalar) else THERE
    try:
        number = float(scalar)
    except OverflowError:
        return THERE
    return Value("number", number) if math.isfinite(number) else THERE


def shortened(text: str) -> str:
    """A text as an index holds it: shorter ones stay as they are, no two become one."""
    if len(text) < LONGEST_TEXT:
        return text
    return f"{text[:HEAD]}…{hashlib.sha256(text.encode()).hexdigest()}"


def following(prefix: str) -> str | None:
    """The least text above all that begin so, by code points; None if there is none."""
    for place in reversed(range(len(prefix))):
        letter = ord(prefix[place]) + 1
        if letter <= LAST_LETTER:
            return prefix[:place] + chr(0xE000 if letter == 0xD800 else letter)
    return None


def _walk(key: str, value: object, depth: int) -> Iterator[Fact]:
    if isinstance(value, Mapping):
        yield Fact(key, THERE)
        if depth < DEEPEST:
            for name, inner in value.items():
                yield from _walk(f"{key}.{name}", inner, depth + 1)
    elif isinstance(value, list):
        yield Fact(key, THERE)
        if len(value) <= MOST_ELEMENTS and depth < DEEPEST:
            for inner in value:
                yield from _walk(key, inner, depth + 1)
    elif isinstance(value, (str, float, int)):
        yield Fact(key, value_of(value))
