"""One shard on disk: `NAME.npy`, features float32 [rows, dim], beside `NAME.json`, whose they are.

The JSON holds the sha256 of the features, and is written after them: a shard with a JSON is a whole shard.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from multifold import durable
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, Features, Kind


class ShardError(MultifoldError):
    """Shards that cannot be written or read; says which and why."""


@dataclass(frozen=True)
class Row:
    """Whose feature a row is: the item, the kind and number of the observation, a caption's text."""

    id: str
    kind: Kind
    index: int
    text: str | None = None

    @property
    def key(self) -> tuple[str, Kind, int]:
        """What names the observation."""
        return self.id, self.kind, self.index


@dataclass(frozen=True)
class Shard:
    """Rows and their features, and the space they live in."""

    vector_id: str
    rows: tuple[Row, ...]
    features: Features


def save(folder: Path, name: str, shard: Shard) -> str:
    """Write a shard; gives the sha256 of its JSON, which vouches for all of it."""
    packed = io.BytesIO()
    np.save(packed, shard.features)
    durable.write(folder / f"{name}.npy", packed.getvalue())
    rows = [astuple(row) for row in shard.rows]
    told = json.dumps({"vector_id": shard.vector_id, "sha256": digest(packed.getvalue()), "rows": rows})
    durable.write(folder / f"{name}.json", told.encode())
    return digest(told.encode())


def load(folder: Path, name: str, expected: str | None = None) -> Shard:
    """Read a shard and verify its hashes, the one of its JSON too if it is known."""
    told = _bytes(folder / f"{name}.json")
    if expected is not None and digest(told) != expected:
        raise ShardError(f"{folder / name}.json is damaged: its sha256 is not the one listed")
    try:
        raw = json.loads(told)
        rows = tuple(_row(*row) for row in raw["rows"])
        return Shard(raw["vector_id"], rows, _features(folder / f"{name}.npy", raw["sha256"], rows))
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"shard {name} in {folder} is not what this version writes: {error!r}") from error


def digest(data: bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def _features(path: Path, expected: str, rows: Sequence[Row]) -> Features:
    packed = _bytes(path)
    if digest(packed) != expected:
        raise ShardError(f"{path} is damaged: its sha256 is not the one listed")
    features: Features = np.load(io.BytesIO(packed), allow_pickle=False)
    if features.ndim != 2 or len(features) != len(rows) or features.dtype != np.float32:
        raise ShardError(f"{path} holds {features.dtype} {features.shape}, and {len(rows)} rows need float32")
    return features


def _row(item: str, kind: Kind, index: int, text: str | None) -> Row:
    if not isinstance(item, str) or kind not in SIDE_OF or not isinstance(index, int):
        raise ShardError(f"there is no observation {kind} {index} of item {item!r}")
    return Row(item, kind, index, text)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ShardError(f"{path} is missing") from None
