"""Items as rows of tables, and back."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from jaxtyping import Int8

from index.base import Paired
from index.truth.rows import first_row
from multifold.types import SIDE_OF, SIDES, Feature, Features, Item, Kind, Observation, Side

Row: TypeAlias = Mapping[Any, Any]  # of a table, by column

FLOAT = np.dtype("<f4")
PLACE = {side: place for place, side in enumerate(SIDES)}


@dataclass(frozen=True)
class Batch:
    """Features of whole editions, ordered by row; `sides` are places in SIDES."""

    rows: Paired
    sides: Int8[np.ndarray, " b"]
    features: Features


@dataclass(frozen=True)
class Card:
    """What a search needs to know of an item it found."""

    id: str
    size: int  # observations
    payload: Mapping[str, Any]


def item_row(edition: int, item: Item, former: Row | None) -> dict[str, Any]:
    """An item as a row of `items`."""
    return {
        "edition": edition,
        "id": item.id,
        "generation": former["generation"] + 1 if former else 1,
        "size": len(item.observations),
        "payload": json.dumps(dict(item.payload), allow_nan=False),
        "files": json.dumps(item.files) if item.files else None,
    }


def observation_rows(edition: int, item: Item) -> Iterator[dict[str, Any]]:
    """An item's observations as rows of `observations`."""
    for row, seen in enumerate(item.observations, first_row(edition)):
        yield {
            "row": row,
            "edition": edition,
            "side": SIDE_OF[seen.kind],
            "kind": seen.kind,
            "ordinal": seen.index,
            "feature": seen.feature.astype(FLOAT).tobytes(),
            "text": seen.text,
            "blob": seen.blob,
        }


def item(row: Row, seen: Iterable[Row]) -> Item:
    """An item from its row and those of its observations."""
    observations = (
        observation(one["kind"], one["ordinal"], one["feature"], one["text"], one["blob"]) for one in seen
    )
    return Item(row["id"], tuple(observations), payload(row["payload"]), files(row["files"]))


def observation(kind: Kind, ordinal: int, feature: bytes, text: str | None, blob: str | None) -> Observation:
    """An observation from its columns."""
    return Observation(kind, ordinal, _feature(feature), text, blob)


def card(id: str, size: int, payload_text: str) -> Card:  # noqa: A002 (what an item's name is called here)
    """A card from its columns."""
    return Card(id, size, payload(payload_text))


def storable(text: str) -> bool:
    """Whether every database can hold this text."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def payload(text: str) -> dict[str, Any]:
    """An item's payload from its column."""
    return cast(dict[str, Any], json.loads(text))


def files(text: str | None) -> tuple[str, ...]:
    """The keys of an item's originals from its column."""
    return tuple(json.loads(text)) if text else ()


def batch(rows: Sequence[Any]) -> Batch:
    """A batch from rows of (row, side, feature)."""
    numbers, sides, features = zip(*rows, strict=True)
    flat = np.frombuffer(b"".join(features), FLOAT).astype(np.float32, copy=False)
    return _batch(numbers, sides, flat.reshape(len(rows), -1))


def batch_of(items: Sequence[Item]) -> Batch:
    """A batch from items not yet written; their places stand for the editions."""
    seen = [one for item in items for one in item.observations]
    rows = [first_row(n) + place for n, item in enumerate(items) for place in range(len(item.observations))]
    return _batch(rows, [SIDE_OF[one.kind] for one in seen], np.stack([one.feature for one in seen]))


def _batch(rows: Sequence[int], sides: Sequence[Side], features: Features) -> Batch:
    return Batch(np.array(rows, np.int64), np.array([PLACE[side] for side in sides], np.int8), features)


def _feature(data: bytes) -> Feature:
    return np.frombuffer(data, FLOAT).astype(np.float32, copy=False)
