"""Items as rows of tables, and back: row numbers, columns, and the payload values that can be filtered by.

Each change of an item makes a new *edition* of it, numbered by the change's sequence number. The rows of an
edition are edition·2²⁰ + place: its observations from place 0 up, its pooled rows (one a side) from the top
down. So a row names its item and its generation, is never used twice, and rows of one edition lie together.

An object is walked into: `{"size": {"w": 3}}` has the key `size.w`. A list stands for each of its elements.
Null is as good as nothing. Numbers are float64; a text that is too long for an index is its beginning and
its hash, which is enough to know it by and to compare it with shorter ones.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from jaxtyping import Int8, Int64

from index.contracts import PairedIds
from multifold.types import SIDE_OF, SIDES, Feature, Features, Item, Kind, Observation, Side

BITS = 20
PLACES = 1 << BITS
MOST_OBSERVATIONS = PLACES - len(SIDES)

Editions = TypeVar("Editions", int, Int64[np.ndarray, " b"])


def first_row(edition: Editions) -> Editions:
    """The row of an edition's first observation; the others follow it."""
    return edition << BITS


def pooled_row(edition: Editions, side: Side) -> Editions:
    """The row of the pooled observations of one side."""
    return (edition << BITS) + PLACES - 1 - SIDES.index(side)


def edition_of(rows: Editions) -> Editions:
    """The edition that rows belong to."""
    return rows >> BITS


def observation_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    """The rows of an edition's observations."""
    return np.arange(size, dtype=np.int64) + first_row(edition)


def rows_of(editions: Int64[np.ndarray, " e"], sizes: Int64[np.ndarray, " e"]) -> Int64[np.ndarray, " b"]:
    """The rows of all observations of rising editions, rising."""
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.asarray(np.repeat(first_row(editions), sizes) + places)


def all_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    """Every row that an edition of `size` observations can have in any engine."""
    pooled = np.array([pooled_row(edition, side) for side in SIDES], np.int64)
    return np.concatenate([observation_rows(edition, size), pooled])


TableRow: TypeAlias = Mapping[Any, Any]  # of a table, by column

FEATURE_DTYPE = np.dtype("<f4")
SIDE_NUMBERS = {side: place for place, side in enumerate(SIDES)}


@dataclass(frozen=True)
class FeatureBatch:
    """Features of whole editions, ordered by row; `sides` are places in SIDES."""

    rows: PairedIds
    sides: Int8[np.ndarray, " b"]
    features: Features


@dataclass(frozen=True)
class ItemSummary:
    """What a search needs to know of an item it found."""

    id: str
    size: int  # observations
    payload: Mapping[str, Any]


def item_record(edition: int, item: Item, former: TableRow | None) -> dict[str, Any]:
    """An item as a row of `items`."""
    return {
        "edition": edition,
        "id": item.id,
        "generation": former["generation"] + 1 if former else 1,
        "size": len(item.observations),
        "payload": json.dumps(dict(item.payload), allow_nan=False),
        "files": json.dumps(item.files) if item.files else None,
    }


def observation_records(edition: int, item: Item) -> Iterator[dict[str, Any]]:
    """An item's observations as rows of `observations`."""
    for row, seen in enumerate(item.observations, first_row(edition)):
        yield {
            "row": row,
            "edition": edition,
            "side": SIDE_OF[seen.kind],
            "kind": seen.kind,
            "ordinal": seen.index,
            "feature": seen.feature.astype(FEATURE_DTYPE).tobytes(),
            "text": seen.text,
            "blob": seen.blob,
        }


def item_from_rows(row: TableRow, seen: Iterable[TableRow]) -> Item:
    """An item from its row and those of its observations."""
    observations = (
        observation_from_columns(one["kind"], one["ordinal"], one["feature"], one["text"], one["blob"])
        for one in seen
    )
    return Item(row["id"], tuple(observations), payload(row["payload"]), parse_files(row["files"]))


def observation_from_columns(
    kind: Kind, ordinal: int, feature: bytes, text: str | None, blob: str | None
) -> Observation:
    """An observation from its columns."""
    return Observation(kind, ordinal, _feature(feature), text, blob)


def summary_from_columns(id: str, size: int, payload_text: str) -> ItemSummary:  # noqa: A002 (what an item's name is called here)
    """A card from its columns."""
    return ItemSummary(id, size, payload(payload_text))


def is_storable(text: str) -> bool:
    """Whether every database can hold this text."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def payload(text: str) -> dict[str, Any]:
    """An item's payload from its column."""
    return cast(dict[str, Any], json.loads(text))


def parse_files(text: str | None) -> tuple[str, ...]:
    """The keys of an item's originals from its column."""
    return tuple(json.loads(text)) if text else ()


def batch_from_rows(rows: Sequence[Any]) -> FeatureBatch:
    """A batch from rows of (row, side, feature)."""
    numbers, sides, features = zip(*rows, strict=True)
    flat = np.frombuffer(b"".join(features), FEATURE_DTYPE).astype(np.float32, copy=False)
    return _batch(numbers, sides, flat.reshape(len(rows), -1))


def batch_from_items(items: Sequence[Item]) -> FeatureBatch:
    """A batch from items not yet written; their places stand for the editions."""
    seen = [one for item in items for one in item.observations]
    rows = [first_row(n) + place for n, item in enumerate(items) for place in range(len(item.observations))]
    return _batch(rows, [SIDE_OF[one.kind] for one in seen], np.stack([one.feature for one in seen]))


def _batch(rows: Sequence[int], sides: Sequence[Side], features: Features) -> FeatureBatch:
    return FeatureBatch(
        np.array(rows, np.int64), np.array([SIDE_NUMBERS[side] for side in sides], np.int8), features
    )


def _feature(data: bytes) -> Feature:
    return np.frombuffer(data, FEATURE_DTYPE).astype(np.float32, copy=False)


Scalar: TypeAlias = str | int | float  # and bool, which is an int
ValueKind: TypeAlias = Literal["text", "number", "bool", "other"]

LONGEST_KEY = 255
LONGEST_TEXT = 256  # characters of a stored text
HEAD = LONGEST_TEXT - 65  # so many characters of a longer one are kept, before "…" and its hash
MAX_KEY_PARTS = 16  # keys of more parts are left out
MOST_ELEMENTS = 1_000  # of a list; a longer one is only known to be there
MOST_FACTS = 4_096  # of one item
LAST_LETTER = 0x10FFFF


class FactValue(NamedTuple):
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


class PayloadFact(NamedTuple):
    """One value of an item."""

    key: str
    value: FactValue


PRESENT = FactValue("other")  # something that has no order and equals nothing


def facts_of(payload: Mapping[str, Any]) -> list[PayloadFact]:
    """Every value of a payload as JSON has it, each once."""
    found = (fact for name, inner in payload.items() for fact in _walk(name, inner, 1))
    return [fact for fact in dict.fromkeys(found) if is_storable(fact.key) and len(fact.key) <= LONGEST_KEY]


def fact_value(scalar: Scalar) -> FactValue:
    """A scalar as it is compared."""
    if isinstance(scalar, bool):
        return FactValue("bool", float(scalar))
    if isinstance(scalar, str):
        return FactValue("text", shorten_text(scalar)) if is_storable(scalar) else PRESENT
    try:
        number = float(scalar)
    except OverflowError:
        return PRESENT
    return FactValue("number", number) if math.isfinite(number) else PRESENT


def shorten_text(text: str) -> str:
    """A text as an index holds it: shorter ones stay as they are, no two become one."""
    if len(text) < LONGEST_TEXT:
        return text
    return f"{text[:HEAD]}…{hashlib.sha256(text.encode()).hexdigest()}"


def next_after_prefix(prefix: str) -> str | None:
    """The least text above all that begin so, by code points; None if there is none."""
    for place in reversed(range(len(prefix))):
        letter = ord(prefix[place]) + 1
        if letter <= LAST_LETTER:
            return prefix[:place] + chr(0xE000 if letter == 0xD800 else letter)
    return None


def _walk(key: str, value: object, depth: int) -> Iterator[PayloadFact]:
    if isinstance(value, Mapping):
        yield PayloadFact(key, PRESENT)
        if depth < MAX_KEY_PARTS:
            for name, inner in value.items():
                yield from _walk(f"{key}.{name}", inner, depth + 1)
    elif isinstance(value, list):
        yield PayloadFact(key, PRESENT)
        if len(value) <= MOST_ELEMENTS and depth < MAX_KEY_PARTS:
            for inner in value:
                yield from _walk(key, inner, depth + 1)
    elif isinstance(value, (str, float, int)):
        yield PayloadFact(key, fact_value(value))
