"""Items read from files of a user's own embeddings, and from features computed in bulk.

Features stay on disk until their item is made, so a file may be larger than memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from multifold.errors import MultifoldError, needs_extra
from multifold.files import feature_shards
from multifold.files.feature_shards import FeatureRow
from multifold.manifest import read as read_manifest
from multifold.types import KIND_OF, SIDES, Features, Item, Observation, Side

ITEMS = 256  # read at once
GatherFeatures: TypeAlias = Callable[[Sequence[int]], Features]


class ImportFileError(MultifoldError):
    """Embeddings that cannot be read; says which and why."""


@dataclass(frozen=True)
class EmbeddingRows:
    """Rows, and where their features are; `payloads` by item."""

    rows: Sequence[FeatureRow]
    dim: int
    gather: GatherFeatures
    vector_id: str | None = None  # of the encoder that made them, if it is known
    payloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def items(self) -> Iterator[list[Item]]:
        """Items in the order of their first rows, some at a time."""
        places: dict[str, list[int]] = {}
        for place, row in enumerate(self.rows):
            places.setdefault(row.id, []).append(place)
        names = list(places)
        for start in range(0, len(names), ITEMS):
            yield [self._item(name, places[name]) for name in names[start : start + ITEMS]]

    def _item(self, name: str, places: list[int]) -> Item:
        features = self.gather(places)
        rows = [self.rows[place] for place in places]
        pairs = zip(rows, features, strict=True)
        observations = tuple(Observation(row.kind, row.index, one, text=row.text) for row, one in pairs)
        return Item(name, observations, self.payloads.get(name, {}))


def read_embeddings(source: Path, ids: Path | None, side: Side, manifest: Path | None) -> EmbeddingRows:
    """A folder of shards, or a .npy or .parquet file with one embedding a row."""
    payloads = {} if manifest is None else {entry.id: entry.meta for entry in read_manifest(manifest)}
    if source.is_dir():
        return _shards(source, payloads)
    if source.suffix == ".npy":
        return _numpy(source, ids, side, payloads)
    if source.suffix == ".parquet":
        return _parquet(source, side, payloads)
    raise ImportFileError(f"{source} is neither a folder of shards nor a .npy or .parquet file.")


def _shards(folder: Path, payloads: Mapping[str, Mapping[str, Any]]) -> EmbeddingRows:
    rows = [
        row for some, _ in feature_shards.read_features(folder) for row in some
    ]  # every hash is verified here
    description = feature_shards.read_description(folder)
    parts = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in description.hashes]
    starts = np.cumsum([0, *map(len, parts)])

    def gather(places: Sequence[int]) -> Features:
        homes = np.searchsorted(starts, places, side="right") - 1
        return np.stack([parts[h][p - starts[h]] for h, p in zip(homes, places, strict=True)])

    return EmbeddingRows(rows, description.dim, gather, description.vector_id, payloads)


def _numpy(
    path: Path, ids: Path | None, side: Side, payloads: Mapping[str, Mapping[str, Any]]
) -> EmbeddingRows:
    if ids is None:
        raise ImportFileError(f"Whose embeddings are those of {path}? Give --ids: a line for each row.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ImportFileError(f"{path} cannot be read: {error}.") from error
    if array.ndim != 2 or array.dtype.kind != "f":
        raise ImportFileError(f"{path} holds {array.dtype} {array.shape}; rows of floats belong there.")
    lines = _lines(ids, side)
    if len(lines) != len(array):
        raise ImportFileError(f"{path} has {len(array)} rows, and {ids} has {len(lines)} lines.")
    return EmbeddingRows(
        _numbered(lines),
        array.shape[1],
        lambda places: np.asarray(array[list(places)], np.float32),
        None,
        {**{one["id"]: one["meta"] for one in lines if one.get("meta")}, **payloads},
    )


def _parquet(path: Path, side: Side, payloads: Mapping[str, Mapping[str, Any]]) -> EmbeddingRows:
    with needs_extra("parquet"):
        from pyarrow import ArrowException, parquet
    try:
        table = parquet.read_table(path)
        columns = {
            name: table.column(name).to_pylist() for name in ("side", "text") if name in table.column_names
        }
        names = [str(name) for name in table.column("id").to_pylist()]
        vectors = np.stack(table.column("vector").to_numpy()).astype(np.float32)
    except (ArrowException, OSError, KeyError, ValueError) as error:
        raise ImportFileError(
            f"{path} cannot be read: {error}. It needs the columns id and vector, all of one length, "
            "and may have side and text."
        ) from error
    lines = [{"id": name, "side": side} for name in names]
    for column, values in columns.items():
        for one, value in zip(lines, values, strict=True):
            one[column] = value
    return EmbeddingRows(
        _numbered(lines), vectors.shape[1], lambda places: vectors[list(places)], None, payloads
    )


def _lines(path: Path, side: Side) -> list[dict[str, Any]]:
    """One id a line; or, in a .jsonl, {"id": …, "side": …, "text": …, "meta": {…}}."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFileError(f"{path} cannot be read: {error}.") from error
    if path.suffix != ".jsonl":
        return [{"id": line, "side": side} for line in texts]
    lines = []
    for number, line in enumerate(texts, 1):
        try:
            one = json.loads(line)
        except ValueError as error:
            raise ImportFileError(f"{path}, line {number}: {error}.") from error
        if not isinstance(one, dict) or not isinstance(one.get("id"), str):
            raise ImportFileError(f'{path}, line {number}: there is no {{"id": "…"}}.')
        lines.append({"side": side, **one})
    return lines


def _numbered(lines: Sequence[Mapping[str, Any]]) -> list[FeatureRow]:
    """Rows; each observation's number is its place among those of its item and kind."""
    counts: dict[tuple[str, Side], int] = {}
    rows = []
    for one in lines:
        if one["side"] not in SIDES:
            raise ImportFileError(f"Item {one['id']!r}: the side must be one of {', '.join(SIDES)}.")
        key = one["id"], one["side"]
        rows.append(FeatureRow(one["id"], KIND_OF[one["side"]], counts.get(key, 0), one.get("text")))
        counts[key] = counts.get(key, 0) + 1
    return rows
