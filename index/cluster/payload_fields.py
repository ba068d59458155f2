"""What Milvus knows of the payload of a row's item, so that it filters by itself.

A row carries tokens of 64 bits, hashes: one for each key of its item, and one for each value of a key. A
number has further ones, for the spans of values that it lies in: its first 4, 8, … 24 bits as a float64. A
filter becomes a condition on tokens that every row meets which passes the filter. Others may meet it too, as
spans may be wider than a range: whoever asks looks at the rows that come.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from index.contracts import Ids
from index.store.filters import AndFilter, ExistsFilter, Filter, NotFilter, OneOfFilter, OrFilter, RangeFilter
from index.store.item_rows import FactValue, PayloadFact, Scalar

FACTS, PART = "facts", "part"
PARTS = 32  # a part is so small a share of the rows that servers compare all of it (see milvus_engine.py)
MOST_TOKENS = 1_024  # of a row
UNLISTED = 0  # the only token of a row that would have more
SIGN = 1 << 63
DIGIT, FINEST = 4, 24  # bits that each span has more than the next wider one, and those of the narrowest


def part_of(rows: Ids) -> Ids:
    """The part of the rows that each belongs to, whatever its number looks like."""
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # overflows, as it should
    return np.asarray(mixed >> np.uint64(64 - (PARTS - 1).bit_length()), np.int64)


def tokens_of(facts: Iterable[PayloadFact]) -> list[int]:
    """What a row carries of the facts of its item."""
    tokens = {token for fact in facts for token in _tokens(*fact)}
    return sorted(tokens) if len(tokens) <= MOST_TOKENS else [UNLISTED]


def condition_of(where: Filter) -> str | None:
    """A condition that all rows meet which pass the filter, and few others; None if there is none."""
    known = _condition(where)
    return None if known is None else f"(({known}) or array_contains({FACTS}, {UNLISTED}))"


def _condition(where: Filter, *, exactly: bool = False) -> str | None:
    """The same for rows with all their tokens; `exactly`: which no others meet."""
    if isinstance(where, (AndFilter, OrFilter)):
        parts = [_condition(part, exactly=exactly) for part in where.parts]
        known = [f"({part})" for part in parts if part is not None]
        joined = (" and " if isinstance(where, AndFilter) else " or ").join(known)
        return joined if known and len(known) == len(parts) else None
    if isinstance(where, NotFilter):
        inner = _condition(where.part, exactly=True)
        return None if inner is None else f"not ({inner})"
    if isinstance(where, OneOfFilter):
        return _any_of(_token(where.key, *value) for value in where.values)
    if isinstance(where, ExistsFilter):
        return _any_of([_token(where.key)])
    if isinstance(where, RangeFilter) and not exactly:
        return _between(where)
    return None


def _between(where: RangeFilter) -> str | None:
    """The spans that cover a range of numbers."""
    lower = [bound for bound in (where.gt, where.gte) if isinstance(bound, float)]
    upper = [bound for bound in (where.lt, where.lte) if isinstance(bound, float)]
    if not (lower or upper):
        return None  # texts
    least, most = max(lower, default=-math.inf), min(upper, default=math.inf)
    return _any_of(_token(where.key, "span", *span) for span in _cover(_ordered(least), _ordered(most)))


def _any_of(tokens: Iterable[int]) -> str:
    return f"array_contains_any({FACTS}, {listed})" if (listed := [*tokens]) else "row < 0"


def _tokens(key: str, value: FactValue) -> Iterator[int]:
    yield _token(key)
    if value.content is not None:
        yield _token(key, *value)
    if value.kind == "number":
        bits = _ordered(float(value.content or 0))
        for length in range(DIGIT, FINEST + 1, DIGIT):
            yield _token(key, "span", length, bits >> 64 - length)


@lru_cache(1 << 16)
def _token(key: str, kind: str = "", *content: Scalar) -> int:
    same = [one + 0.0 if isinstance(one, float) else one for one in content]  # -0.0 is 0.0
    digest = blake2b(repr((key, kind, *same)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _ordered(number: float) -> int:
    """The bits of a number, so that greater ones have greater bits."""
    bits = int.from_bytes(struct.pack(">d", number + 0.0), "big")
    return bits ^ (2 * SIGN - 1) if bits & SIGN else bits | SIGN


def _cover(least: int, most: int) -> Iterator[tuple[int, int]]:
    """Spans that all bits between these lie in, few and not much wider: how many bits each has, and which."""
    least, most, base = least >> 64 - FINEST, most >> 64 - FINEST, 1 << DIGIT
    for length in range(FINEST, 0, -DIGIT):
        while least <= most and (least % base or length == DIGIT):
            yield length, least
            least += 1
        while least <= most and most % base != base - 1:
            yield length, most
            most -= 1
        if least > most:
            return
        least, most = least >> DIGIT, most >> DIGIT
