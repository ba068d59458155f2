"""Features computed in bulk, stored as shards until a collection reads them.

A shard is `NAME.npy` with features float32 [rows, dim] and, written after it, `NAME.json` with the row of
each feature and their sha256. A folder of shards is complete with its `shards.json`, the sha256 of each. Each
folder has one writer.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multifold import durable
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, Features, Kind

FORMAT = 1
MANIFEST = "shards.json"


class ShardError(MultifoldError):
    """Shards that cannot be written or read; says which and why."""


@dataclass(frozen=True)
class FeatureRow:
    """Whose feature a row is: the item, the kind and number of the observation, a caption's text."""

    id: str
    kind: Kind
    index: int
    text: str | None = None


@dataclass(frozen=True)
class FeatureShard:
    """Rows and their features, and the space they live in."""

    vector_id: str
    rows: tuple[FeatureRow, ...]
    features: Features


def write_shard(folder: Path, name: str, shard: FeatureShard) -> None:
    """Write a shard; its JSON vouches for all of it, and comes last."""
    packed = io.BytesIO()
    np.save(packed, shard.features)
    durable.write_file(folder / f"{name}.npy", packed.getvalue())
    rows = [astuple(row) for row in shard.rows]
    about = {"vector_id": shard.vector_id, "sha256": sha256_of(packed.getvalue()), "rows": rows}
    durable.write_file(folder / f"{name}.json", json.dumps(about).encode())


def read_shard(folder: Path, name: str, expected: str | None = None) -> FeatureShard:
    """Read a shard and verify its hashes, the one of its JSON too if it is known."""
    description = _read_bytes(folder / f"{name}.json")
    if expected is not None and sha256_of(description) != expected:
        raise ShardError(f"{folder / name}.json is damaged: its sha256 is not the one listed")
    try:
        raw = json.loads(description)
        rows = tuple(map(_row, raw["rows"]))
        return FeatureShard(raw["vector_id"], rows, _features(folder / f"{name}.npy", raw["sha256"], rows))
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"shard {name} in {folder} is not what this version writes: {error!r}") from error


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _features(path: Path, expected: str, rows: Sequence[FeatureRow]) -> Features:
    packed = _read_bytes(path)
    if sha256_of(packed) != expected:
        raise ShardError(f"{path} is damaged: its sha256 is not the one listed")
    features: Features = np.load(io.BytesIO(packed), allow_pickle=False)
    if features.ndim != 2 or len(features) != len(rows) or features.dtype != np.float32:
        raise ShardError(f"{path} holds {features.dtype} {features.shape}, and {len(rows)} rows need float32")
    return features


def _row(fields: Sequence[Any]) -> FeatureRow:
    item, kind, index, text = fields
    if not isinstance(item, str) or kind not in SIDE_OF or not isinstance(index, int):
        raise ShardError(
            f"there is no observation {kind} {index} of item {item!r}: compute the features again"
        )
    return FeatureRow(item, kind, index, text)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ShardError(f"{path} is missing") from None


@dataclass(frozen=True)
class FeatureFolder:
    """What `shards.json` says."""

    folder: Path
    vector_id: str
    dim: int
    rows: int
    hashes: Mapping[str, str]  # name of a shard -> sha256 of its JSON


def seal_folder(folder: Path, vector_id: str, dim: int) -> int:
    """Complete a folder with the manifest of its shards, which are verified; how many rows they hold."""
    durable.remove_temporary_files(folder)
    hashes: dict[str, str] = {}
    rows = 0
    for path in sorted(folder.glob("[0-9]*.json")):
        shard = read_shard(folder, path.stem)
        if (shard.vector_id, shard.features.shape[1]) != (vector_id, dim):
            raise ShardError(
                f"{path} holds features of another space than {vector_id}; choose another folder"
            )
        hashes[path.stem] = sha256_of(path.read_bytes())
        rows += len(shard.rows)
    about = {"format": FORMAT, "vector_id": vector_id, "dim": dim, "rows": rows, "shards": hashes}
    durable.write_file(folder / MANIFEST, json.dumps(about, indent=1).encode())
    return rows


def read_description(folder: Path) -> FeatureFolder:
    """What a finished folder holds."""
    try:
        raw = json.loads((folder / MANIFEST).read_bytes())
        if raw["format"] != FORMAT:
            raise ShardError(f"{folder} has format {raw['format']}, and this version reads {FORMAT}")
        return FeatureFolder(folder, raw["vector_id"], raw["dim"], raw["rows"], dict(raw["shards"]))
    except FileNotFoundError:
        raise ShardError(f"{folder} has no {MANIFEST}: the work that fills it is not finished") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"{folder / MANIFEST} is damaged: {error!r}") from error


def read_features(
    folder: Path, vector_id: str | None = None
) -> Iterator[tuple[tuple[FeatureRow, ...], Features]]:
    """Rows and features shard by shard, their hashes verified; refused if they are of another vector_id."""
    shards = read_description(folder)
    if vector_id is not None and shards.vector_id != vector_id:
        found = f"{folder} holds features of {shards.vector_id}"
        raise ShardError(f"{found}, not of {vector_id}; encode them again")
    return _read_all(shards)


def _read_all(shards: FeatureFolder) -> Iterator[tuple[tuple[FeatureRow, ...], Features]]:
    count = 0
    for name, digest in shards.hashes.items():
        if not name.isdecimal():
            raise ShardError(f"{name!r} is no name of a shard")
        shard = read_shard(shards.folder, name, digest)
        if (shard.vector_id, shard.features.shape[1]) != (shards.vector_id, shards.dim):
            raise ShardError(f"shard {name} in {shards.folder} is of another space than {MANIFEST} says")
        count += len(shard.rows)
        yield shard.rows, shard.features
    if count != shards.rows:
        raise ShardError(f"{shards.folder} holds {count} rows, and {MANIFEST} promises {shards.rows}")
