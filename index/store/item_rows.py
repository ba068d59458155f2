"""Items as rows of tables and of engines, and back: row numbers, columns, facts and vectors.

Each change of an item makes a new *edition* of it, numbered by the change's sequence number. The rows of an
edition are edition·2²⁰ + place: its observations from place 0 up, its pooled rows (one a side) from the top
down. So a row names its item and its edition, is never used twice, and rows of one edition are together.

The facts of an item are the values of its payload, which filters ask for. An object is walked into:
`{"size": {"w": 3}}` has the key `size.w`. A list stands for each of its elements. Null is as good as nothing.
Numbers are float64; a text that is too long for an index is its beginning and its hash, which is enough to
know it by and to compare it with shorter ones.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from jaxtyping import Bool, Float32, Int8, Int64
from sqlalchemy import BindParameter, Connection, Executable, FromClause, bindparam, func, select

from index.contracts import EngineKey, Ids, PairedIds, Space
from index.store.database import checksums, checksums_of, is_storable, is_whole, is_whole_item
from index.store.schema import LONGEST_TEXT, TableRow, items, observations
from multifold.errors import MultifoldError
from multifold.types import (
    ASPECT_OF,
    ASPECTS,
    KIND_OF_ASPECT,
    LONGEST_KEY,
    Aspect,
    Features,
    Item,
    Kind,
    Observation,
    Vectors,
)

BITS = 20
PLACES = 1 << BITS
MOST_OBSERVATIONS = PLACES - len(ASPECTS)

Editions = TypeVar("Editions", int, Int64[np.ndarray, " b"])


def first_row(edition: Editions) -> Editions:
    """The row of an edition's first observation; the others follow it."""
    return edition << BITS


def pooled_row(edition: Editions, aspect: Aspect) -> Editions:
    """The row of the pooled observations of one aspect."""
    return (edition << BITS) + PLACES - 1 - ASPECTS.index(aspect)


def edition_of(rows: Editions) -> Editions:
    return rows >> BITS


def observation_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    return np.arange(size, dtype=np.int64) + first_row(edition)


def rows_of(editions: Int64[np.ndarray, " e"], sizes: Int64[np.ndarray, " e"]) -> Int64[np.ndarray, " b"]:
    """The rows of all observations of rising editions, rising."""
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.asarray(np.repeat(first_row(editions), sizes) + places)


def all_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    """Every row that an edition of `size` observations can have in any engine."""
    pooled = np.array([pooled_row(edition, aspect) for aspect in ASPECTS], np.int64)
    return np.concatenate([observation_rows(edition, size), pooled])


FEATURE_DTYPE = np.dtype("<f4")
OBSERVATIONS_AT_ONCE = 8192  # observations whose vectors are computed at once
ASPECT_NUMBERS = {aspect: place for place, aspect in enumerate(ASPECTS)}


@dataclass(frozen=True)
class FeatureBatch:
    """Features of whole editions, ordered by row; `sides` are places in ASPECTS."""

    rows: PairedIds
    sides: Int8[np.ndarray, " b"]
    features: Features


@dataclass(frozen=True)
class ItemSummary:
    id: str
    size: int  # observations
    payload: Mapping[str, Any]


def item_record(edition: int, item: Item, former: TableRow | None) -> dict[str, Any]:
    record = {
        "edition": edition,
        "id": item.id,
        "generation": former["generation"] + 1 if former else 1,
        "size": len(item.observations),
        "payload": json.dumps(dict(item.payload), allow_nan=False),
        "files": _files_text(item),
    }
    return record | {"row_checksum": checksums(*record.values())[1]}


def observation_records(edition: int, item: Item) -> Iterator[dict[str, Any]]:
    columns = [column.name for column in COLUMNS]
    for row, one in enumerate(item.observations, first_row(edition)):
        feature = one.feature.astype(FEATURE_DTYPE).tobytes()
        values = (row, edition, ASPECT_OF[one.kind], one.kind, one.index, feature, one.text, one.blob)
        yield dict(zip(columns, (*values, *checksums_of(values)), strict=True))


def fact_records(edition: int, payload_text: str) -> Iterator[dict[str, Any]]:
    """What an item can be filtered by as rows of `facts`."""
    for key, value in facts_of(payload(payload_text)):
        yield {"edition": edition, "key": key, "kind": value.kind, "text": value.text, "number": value.number}


Scalar: TypeAlias = str | int | float  # and bool, which is an int
ValueKind: TypeAlias = Literal["text", "number", "bool", "other"]

TEXT_HEAD = LONGEST_TEXT - 65  # so many characters of a longer one are kept, before "…" and its hash
MAX_KEY_PARTS = 16  # keys of more parts are left out
MOST_ELEMENTS = 1_000  # of a list; a longer one is only known to be there
MOST_FACTS = 4_096  # of one item


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
    every = (fact for name, inner in payload.items() for fact in _walk_payload(name, inner, 1))
    return [fact for fact in dict.fromkeys(every) if is_storable(fact.key) and len(fact.key) <= LONGEST_KEY]


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
    return f"{text[:TEXT_HEAD]}…{hashlib.sha256(text.encode()).hexdigest()}"


def _walk_payload(key: str, value: object, depth: int) -> Iterator[PayloadFact]:
    if isinstance(value, Mapping):
        yield PayloadFact(key, PRESENT)
        if depth < MAX_KEY_PARTS:
            for name, inner in value.items():
                yield from _walk_payload(f"{key}.{name}", inner, depth + 1)
    elif isinstance(value, list):
        yield PayloadFact(key, PRESENT)
        if len(value) <= MOST_ELEMENTS and depth < MAX_KEY_PARTS:
            for inner in value:
                yield from _walk_payload(key, inner, depth + 1)
    elif isinstance(value, (str, float, int)):
        yield PayloadFact(key, fact_value(value))


def observation_of(row: Any) -> Observation:  # noqa: ANN401 (a row of `observations`)
    """An observation of its row: its text or picture only if that is what was written."""
    data = row.feature if isinstance(row.feature, bytes) else b""
    numbers = len(data) // FEATURE_DTYPE.itemsize  # damage may have cut it
    feature = np.frombuffer(data, FEATURE_DTYPE, numbers).astype(np.float32, copy=False)
    if not is_whole(row):
        kind: Kind = row.kind if row.kind in ASPECT_OF else KIND_OF_ASPECT.get(row.side, "view")
        return Observation(kind, row.ordinal, feature)
    return Observation(row.kind, row.ordinal, feature, row.text, row.blob)


def payload(text: str) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(text))


def payload_of(row: Any) -> dict[str, Any]:  # noqa: ANN401 (a row of `items`)
    """An item's payload; none if its row is not what was written."""
    return payload(row.payload) if is_whole_item(row) else {}


def _files_text(item: Item) -> str | None:
    """The keys of an item's originals; beside them, if there are any, the notes about them."""
    if item.notes:
        return json.dumps({"keys": item.files, "notes": item.notes})
    return json.dumps(item.files) if item.files else None


def parse_files(text: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys of an item's originals, and the notes about them, from its column."""
    value = json.loads(text) if text else ()
    keys, notes = (value["keys"], value["notes"]) if isinstance(value, dict) else (value, ())
    return tuple(keys), tuple(notes)


def batch_from_rows(rows: Sequence[Any]) -> FeatureBatch:
    numbers, sides, features = zip(*((one.row, one.side, one.feature) for one in rows), strict=True)
    flat = np.frombuffer(b"".join(features), FEATURE_DTYPE).astype(np.float32, copy=False)
    return _batch(numbers, sides, flat.reshape(len(rows), -1))


def batch_from_items(items: Sequence[Item]) -> FeatureBatch:
    """A batch from items not yet written; their places stand for the editions."""
    every = [one for item in items for one in item.observations]
    rows = [first_row(n) + place for n, item in enumerate(items) for place in range(len(item.observations))]
    return _batch(rows, [ASPECT_OF[one.kind] for one in every], np.stack([one.feature for one in every]))


def _batch(rows: Sequence[int], sides: Sequence[Aspect], features: Features) -> FeatureBatch:
    places = np.array([ASPECT_NUMBERS[side] for side in sides], np.int8)
    return FeatureBatch(np.array(rows, np.int64), places, features)


STATEMENT_VALUES = 5_000  # values in one statement
VALUES: BindParameter[Any] = bindparam("values", expanding=True)
COLUMNS = observations.c
KNOWN = COLUMNS.kind != "together"  # which collections had before, and nothing reads now
SUMMARIES = select(items).where(items.c.edition.in_(VALUES))
LIVING = select(items.c.edition).where(items.c.edition.in_(VALUES))
OBSERVATIONS = select(observations).where(COLUMNS.row.in_(VALUES))
TEXT_ROWS = (
    select(COLUMNS.edition, COLUMNS.row)
    .where(COLUMNS.edition.in_(VALUES), COLUMNS.text.is_not(None))
    .order_by(COLUMNS.row)
)


def count_rows(connection: Connection, table: FromClause) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


def in_pieces(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """So many values at a time as one statement takes."""
    for start in range(0, len(values), STATEMENT_VALUES):
        yield values[start : start + STATEMENT_VALUES]


def read_rows(connection: Connection, statement: Executable, values: Sequence[Any]) -> Iterator[Any]:
    """The rows that a statement finds for these values."""
    for some in in_pieces(values):
        yield from connection.execute(statement, {VALUES.key: some}).all()  # one by one takes twice as long


def living_editions(connection: Connection, editions: Sequence[int]) -> list[int]:
    """Those of these editions that are neither replaced nor deleted."""
    return [row.edition for row in read_rows(connection, LIVING, editions)]


def read_summaries(connection: Connection, editions: Sequence[int]) -> dict[int, ItemSummary]:
    """Id, size and payload of these editions; those replaced or deleted are left out."""
    rows = read_rows(connection, SUMMARIES, editions)
    return {row.edition: _summary(connection, row) for row in rows}


def _summary(connection: Connection, row: Any) -> ItemSummary:  # noqa: ANN401 (a row of `items`)
    """An item's summary; its observations are counted, and it has no payload, where its row is damaged."""
    if is_whole_item(row):
        return ItemSummary(row.id, int(row.size), payload(row.payload))
    own = select(COLUMNS.row).where(COLUMNS.edition == row.edition).subquery()
    return ItemSummary(row.id, count_rows(connection, own), {})


def read_observations(connection: Connection, rows: Sequence[int]) -> dict[int, Observation]:
    """The observations of these rows; those replaced or deleted are left out."""
    every = read_rows(connection, OBSERVATIONS, rows)
    return {one.row: observation_of(one) for one in every}


def text_rows(connection: Connection, editions: Sequence[int]) -> dict[int, list[int]]:
    """The rows of the texts of these editions, in the order in which an item names them."""
    rows: dict[int, list[int]] = {edition: [] for edition in editions}
    for edition, row in read_rows(connection, TEXT_ROWS, editions):
        rows[edition].append(row)
    return rows


def are_equal(item: Item, other: Item | None) -> bool:
    if other is None or dict(item.payload) != dict(other.payload) or item.files != other.files:
        return False
    return [*observation_records(0, item)] == [*observation_records(0, other)]


MAX_NUMBER = 1e15  # squares of such numbers, summed, still fit in float32


@dataclass(frozen=True)
class EngineRows:
    segment: EngineKey
    rows: PairedIds
    vectors: Vectors


def derive_rows(batch: FeatureBatch, space: Space) -> Iterator[EngineRows]:
    """The rows of whole editions: each observation's vector, and the vector of each side's mean feature."""
    for place, side in enumerate(ASPECTS):
        chosen = batch.sides == place
        if not chosen.any():
            continue
        rows = batch.rows[chosen]
        features = batch.features[chosen]
        yield EngineRows((side, "observation"), rows, space.vectors(features))
        editions, means = pool_features(edition_of(rows), features)
        yield EngineRows((side, "pooled"), pooled_row(editions, side), space.vectors(means))


def derive_usable_rows(batch: FeatureBatch, space: Space) -> Iterator[EngineRows]:
    """The derived rows that can be compared: no damage may make a vector that is close to all."""
    for new in derive_rows(batch, space):
        good = usable(new.vectors)
        yield new if good.all() else EngineRows(new.segment, new.rows[good], new.vectors[good])


def pool_features(
    editions: PairedIds, features: Float32[np.ndarray, "b n"]
) -> tuple[Ids, Float32[np.ndarray, "e n"]]:
    """Each edition and the mean of its features, as `pool_mean` takes it; equal editions stand together."""
    starts = np.flatnonzero(np.diff(editions, prepend=editions[0] - 1))
    sums = np.add.reduceat(features.astype(np.float64), starts, axis=0)
    sizes = np.diff(starts, append=len(editions))
    return editions[starts], (sums / sizes[:, None]).astype(np.float32)


def check_vectors(new: Sequence[Item], space: Space) -> None:
    """Refuse items whose features are fine and still have no usable vector in the space."""
    for addition in derive_rows(batch_from_items(new), space):
        bad = addition.rows[~usable(addition.vectors)]
        if len(bad):
            raise ItemError(
                f"Item {new[int(edition_of(bad)[0])].id!r}: the encoder's geometry makes no usable vector "
                f"of its {addition.segment[0]} features (not finite, or beyond {MAX_NUMBER:g})."
            )


def usable(vectors: Vectors) -> Bool[np.ndarray, " b"]:
    """Which vectors are finite and of numbers that are not too large."""
    return np.asarray((np.abs(vectors) <= MAX_NUMBER).all(axis=1))  # false for NaN too


ANEW = "write the item again, from its originals"


class ItemError(MultifoldError):
    """An item that cannot be stored; says which and why."""
