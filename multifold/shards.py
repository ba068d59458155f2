"""Features computed in bulk, on their way into a collection.

A folder holds shards and, written last, `shards.json` with the sha256 of each. Every file appears whole or
not at all, so work that was stopped goes on where it ended. One writer a folder: many workers fill many.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from multifold import durable, shardfile
from multifold.shardfile import Row, Shard, ShardError
from multifold.types import Features, Kind

__all__ = ["Row", "ShardError", "ShardWriter", "Shards", "describe", "read"]

FORMAT = 1
MANIFEST = "shards.json"


@dataclass(frozen=True)
class Shards:
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
        self.folder, self.vector_id, self.dim, self.rows_per_shard = folder, vector_id, dim, rows_per_shard
        self._rows: list[Row] = []
        self._features: list[Features] = []
        self._finished: dict[str, str] = {}  # name -> sha256
        self._known: set[tuple[str, Kind, int]] = set()
        durable.make_folder(folder)
        durable.sweep(folder)
        self._resume()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last shard and the manifest; after an error neither, so that the work can go on."""
        if kind is None:
            if self._rows:
                self._flush(len(self._rows))
            self._seal()

    def __contains__(self, row: Row) -> bool:
        """Whether the feature of this observation was written already."""
        return row.key in self._known

    def __len__(self) -> int:
        """How many features were written, now and before."""
        return len(self._known)

    def write(self, rows: Sequence[Row], features: Features) -> None:
        """Add features; a full shard goes to disk at once."""
        if features.shape != (len(rows), self.dim):
            raise ShardError(
                f"{len(rows)} rows need features [{len(rows)}, {self.dim}], not {features.shape}"
            )
        if not np.isfinite(features).all():
            raise ShardError("some features are infinite or not numbers; the encoder is at fault")
        self._know(rows)
        self._rows.extend(rows)
        self._features.append(features.copy())
        while len(self._rows) >= self.rows_per_shard:
            self._flush(self.rows_per_shard)

    def _know(self, rows: Sequence[Row]) -> None:
        keys = [row.key for row in rows]
        twice = self._known.intersection(keys) | {key for key, times in Counter(keys).items() if times > 1}
        if twice:
            item, kind, index = min(twice)
            raise ShardError(f"the {kind} {index} of item {item!r} is written twice")
        self._known.update(keys)

    def _flush(self, count: int) -> None:
        name = next(name for name in map(_name, range(len(self._finished) + 1)) if name not in self._finished)
        features = np.concatenate(self._features)
        shard = Shard(self.vector_id, tuple(self._rows[:count]), features[:count])
        self._finished[name] = shardfile.save(self.folder, name, shard)
        self._rows, self._features = self._rows[count:], [features[count:]]

    def _seal(self) -> None:
        told = {"format": FORMAT, "vector_id": self.vector_id, "dim": self.dim, "rows": len(self._known)}
        hashes = dict(sorted(self._finished.items()))
        durable.write(self.folder / MANIFEST, json.dumps({**told, "shards": hashes}, indent=1).encode())

    def _resume(self) -> None:
        """Take over what is whole; a damaged shard is written anew."""
        for path in sorted(self.folder.glob("[0-9]*.json")):
            try:
                shard = shardfile.load(self.folder, path.stem)
            except ShardError:
                continue
            self._check(shard)
            self._finished[path.stem] = shardfile.digest(path.read_bytes())
            self._known.update(row.key for row in shard.rows)

    def _check(self, shard: Shard) -> None:
        there = shard.vector_id, shard.features.shape[1]
        if there != (self.vector_id, self.dim):
            raise ShardError(
                f"{self.folder} holds features of {there[0]} with {there[1]} numbers each, not of "
                f"{self.vector_id} with {self.dim}; choose another folder"
            )


def describe(folder: Path) -> Shards:
    """What a finished folder holds."""
    try:
        raw = json.loads((folder / MANIFEST).read_bytes())
        if raw["format"] != FORMAT:
            raise ShardError(f"{folder} has format {raw['format']}, and this version reads {FORMAT}")
        return Shards(folder, raw["vector_id"], raw["dim"], raw["rows"], dict(raw["shards"]))
    except FileNotFoundError:
        raise ShardError(f"{folder} has no {MANIFEST}: the work that fills it is not finished") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"{folder / MANIFEST} is damaged: {error!r}") from error


def read(folder: Path, vector_id: str | None = None) -> Iterator[tuple[tuple[Row, ...], Features]]:
    """Rows and features shard by shard, their hashes verified; refused if they are of another vector_id."""
    shards = describe(folder)
    if vector_id is not None and shards.vector_id != vector_id:
        raise ShardError(
            f"{folder} holds features of {shards.vector_id}, not of {vector_id}; encode them anew"
        )
    return _all(shards)


def _all(shards: Shards) -> Iterator[tuple[tuple[Row, ...], Features]]:
    count = 0
    for name in shards.hashes:
        rows, features = _verified(shards, name)
        count += len(rows)
        yield rows, features
    if count != shards.rows:
        raise ShardError(f"{shards.folder} holds {count} rows, and {MANIFEST} promises {shards.rows}")


def _verified(shards: Shards, name: str) -> tuple[tuple[Row, ...], Features]:
    if not name.isdecimal():
        raise ShardError(f"{name!r} is no name of a shard")
    shard = shardfile.load(shards.folder, name, shards.hashes[name])
    if (shard.vector_id, shard.features.shape[1]) != (shards.vector_id, shards.dim):
        raise ShardError(f"shard {name} in {shards.folder} is of another space than {MANIFEST} says")
    return shard.rows, shard.features


def _name(number: int) -> str:
    return f"{number:05d}"
