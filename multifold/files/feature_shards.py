"""Features computed in bulk, stored as shards until a collection reads them.

A shard is `NAME.npy` with features float32 [rows, dim] and, written after it, `NAME.json` with the row of
each feature and their sha256. A folder of shards is complete with its `shards.json`, the sha256 of each;
interrupted work continues where it ended. Each folder has one writer.
"""

import hashlib
import io
import json
from collections import Counter
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

    @property
    def key(self) -> tuple[str, Kind, int]:
        return self.id, self.kind, self.index


@dataclass(frozen=True)
class FeatureShard:
    """Rows and their features, and the space they live in."""

    vector_id: str
    rows: tuple[FeatureRow, ...]
    features: Features


def write_shard(folder: Path, name: str, shard: FeatureShard) -> str:
    """Write a shard; gives the sha256 of its JSON, which vouches for all of it."""
    packed = io.BytesIO()
    np.save(packed, shard.features)
    durable.write_file(folder / f"{name}.npy", packed.getvalue())
    rows = [astuple(row) for row in shard.rows]
    about = {"vector_id": shard.vector_id, "sha256": sha256_of(packed.getvalue()), "rows": rows}
    description = json.dumps(about).encode()
    durable.write_file(folder / f"{name}.json", description)
    return sha256_of(description)


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


class ShardWriter:
    """Writes features into a folder; what an earlier, interrupted writer finished is kept.

    with ShardWriter(folder, vector_id, dim) as out:
        for rows in batches:
            missing = [row for row in rows if row not in out]
            out.write(missing, encode(missing))
    """

    def __init__(self, folder: Path, vector_id: str, dim: int, rows_per_shard: int = 16_384) -> None:
        if rows_per_shard < 1 or dim < 1:
            raise ShardError("a shard holds at least one row, and a feature at least one number")
        self.folder = folder
        self.vector_id = vector_id
        self.dim = dim
        self.rows_per_shard = rows_per_shard
        self._rows: list[FeatureRow] = []
        self._features: list[Features] = []
        self._finished: dict[str, str] = {}  # name -> sha256
        self._written: set[tuple[str, Kind, int]] = set()
        durable.make_folder(folder)
        durable.remove_temporary_files(folder)
        self._resume()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the last shard and the manifest; after an error neither, so that the work can go on."""
        if kind is None:
            if self._rows:
                self._flush(len(self._rows))
            about = {"format": FORMAT, "vector_id": self.vector_id, "dim": self.dim, "rows": len(self)}
            text = json.dumps({**about, "shards": dict(sorted(self._finished.items()))}, indent=1)
            durable.write_file(self.folder / MANIFEST, text.encode())

    def __contains__(self, row: FeatureRow) -> bool:
        return row.key in self._written

    def __len__(self) -> int:
        return len(self._written)

    def write(self, rows: Sequence[FeatureRow], features: Features) -> None:
        """Add features; a full shard goes to disk at once."""
        if features.shape != (len(rows), self.dim):
            wanted = [len(rows), self.dim]
            raise ShardError(f"{len(rows)} rows need features {wanted}, not {features.shape}")
        if not np.isfinite(features).all():
            raise ShardError("some features are infinite or not numbers; the encoder is at fault")
        keys = [row.key for row in rows]
        twice = self._written.intersection(keys) | {key for key, times in Counter(keys).items() if times > 1}
        if twice:
            item, kind, index = min(twice)
            raise ShardError(f"the {kind} {index} of item {item!r} is written twice")
        self._written.update(keys)
        self._rows.extend(rows)
        self._features.append(features.copy())
        while len(self._rows) >= self.rows_per_shard:
            self._flush(self.rows_per_shard)

    def _flush(self, count: int) -> None:
        names = (f"{number:05d}" for number in range(len(self._finished) + 1))
        name = next(name for name in names if name not in self._finished)
        features = np.concatenate(self._features)
        shard = FeatureShard(self.vector_id, tuple(self._rows[:count]), features[:count])
        self._finished[name] = write_shard(self.folder, name, shard)
        self._rows, self._features = self._rows[count:], [features[count:]]

    def _resume(self) -> None:
        """Take over what is whole; a damaged shard is written again."""
        for path in sorted(self.folder.glob("[0-9]*.json")):
            try:
                shard = read_shard(self.folder, path.stem)
            except ShardError:
                continue
            space = shard.vector_id
            dim = shard.features.shape[1]
            if (space, dim) != (self.vector_id, self.dim):
                wanted = f"not of {self.vector_id} with {self.dim}; choose another folder"
                raise ShardError(f"{self.folder} holds features of {space} with {dim} numbers each, {wanted}")
            self._finished[path.stem] = sha256_of(path.read_bytes())
            self._written.update(row.key for row in shard.rows)


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
