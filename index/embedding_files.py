"""Items read from files of a user's own embeddings, and from features computed in bulk.

Both may be larger than memory: rows wait in a temporary database until their item is made, features stay in
their files.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import numpy as np

from multifold.errors import MultifoldError, needs_extra
from multifold.files import feature_shards
from multifold.manifest import read as read_manifest
from multifold.types import ASPECTS, KIND_OF_ASPECT, Aspect, Features, Item, Kind, Observation

ITEMS_AT_ONCE = 1_024  # read at once
GatherFeatures: TypeAlias = Callable[[Sequence[int]], Features]
ImportedRow: TypeAlias = tuple[str, str, int | None, str | None]  # item, kind, number if it has one, text

TABLES = """
CREATE TABLE rows (place INTEGER PRIMARY KEY, item TEXT, kind TEXT, number INTEGER, text TEXT);
CREATE TABLE payloads (item TEXT PRIMARY KEY, payload TEXT);
CREATE TABLE names (number INTEGER PRIMARY KEY, item TEXT);
"""
NAMES = "INSERT INTO names (item) SELECT item FROM rows GROUP BY item ORDER BY min(place)"
BY_ITEM = "CREATE INDEX rows_by_item ON rows (item)"
SOME = """
SELECT item, payload, kind, text, place,
  coalesce(rows.number, row_number() OVER (PARTITION BY item, kind ORDER BY place) - 1)
FROM names JOIN rows USING (item) LEFT JOIN payloads USING (item)
WHERE names.number > ? AND names.number <= ? ORDER BY names.number, place
"""
LACKING = """
SELECT item FROM rows GROUP BY item HAVING sum(kind = 'view') > 0 AND sum(kind = ?) = 0
ORDER BY min(place) LIMIT 1
"""


class ImportFileError(MultifoldError):
    """Embeddings that cannot be read; says which and why."""


@dataclass
class EmbeddingRows:
    """Rows in the order they came, and where their features are; observations without a number get one."""

    vector_id: str | None = None  # of the encoder that made them, if it is known
    count: int = 0
    dim: int = 0
    gather: GatherFeatures = field(init=False)
    _spool: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(""))  # a file of its own

    def __post_init__(self) -> None:
        self._spool.executescript(TABLES)

    def add(self, rows: Iterable[ImportedRow]) -> None:
        """More rows."""
        statement = "INSERT INTO rows (item, kind, number, text) VALUES (?, ?, ?, ?)"
        self.count += self._spool.executemany(statement, rows).rowcount

    def add_payloads(self, payloads: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Payloads by item, in place of those before."""
        lines = ((item, json.dumps(dict(payload))) for item, payload in payloads)
        self._spool.executemany("INSERT OR REPLACE INTO payloads VALUES (?, ?)", lines)

    def items(self) -> Iterator[list[Item]]:
        """Items in the order of their first rows, some at a time."""
        count = self._spool.execute(NAMES).rowcount
        self._spool.execute(BY_ITEM)
        for start in range(0, count, ITEMS_AT_ONCE):
            rows = self._spool.execute(SOME, (start, start + ITEMS_AT_ONCE)).fetchall()
            yield [self._item(list(some)) for _, some in groupby(rows, key=itemgetter(0))]

    def lacking(self, kind: Kind) -> str | None:
        """The first item that has views and no observation of this kind."""
        found = self._spool.execute(LACKING, (kind,)).fetchone()
        return None if found is None else str(found[0])

    def close(self) -> None:
        """Give up the temporary database."""
        self._spool.close()

    def _item(self, rows: Sequence[Sequence[Any]]) -> Item:
        names, payloads, kinds, texts, places, numbers = zip(*rows, strict=True)
        features = self.gather([place - 1 for place in places])
        observations = map(Observation, kinds, numbers, features, texts)
        return Item(names[0], tuple(observations), json.loads(payloads[0] or "{}"))


def read_embeddings(source: Path, ids: Path | None, side: Aspect, manifest: Path | None) -> EmbeddingRows:
    """A folder of shards, or a .npy or .parquet file with one embedding a row."""
    if source.is_dir():
        embeddings = _shards(source)
    elif source.suffix == ".npy":
        embeddings = _numpy(source, ids, side)
    elif source.suffix == ".parquet":
        embeddings = _parquet(source, side)
    else:
        raise ImportFileError(f"{source} is neither a folder of shards nor a .npy or .parquet file.")
    if manifest is not None:
        embeddings.add_payloads((entry.id, entry.meta) for entry in read_manifest(manifest))
    return embeddings


def _shards(folder: Path) -> EmbeddingRows:
    description = feature_shards.read_description(folder)
    embeddings = EmbeddingRows(description.vector_id, dim=description.dim)
    for rows, _ in feature_shards.read_features(folder):  # every hash is verified here
        embeddings.add(astuple(row) for row in rows)
    parts = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in description.hashes]
    starts = np.cumsum([0, *map(len, parts)])

    def gather(places: Sequence[int]) -> Features:
        homes = np.searchsorted(starts, places, side="right") - 1
        return np.stack([parts[h][p - starts[h]] for h, p in zip(homes, places, strict=True)])

    embeddings.gather = gather
    return embeddings


def _numpy(path: Path, ids: Path | None, side: Aspect) -> EmbeddingRows:
    if ids is None:
        raise ImportFileError(f"Whose embeddings are those of {path}? Give --ids: a line for each row.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ImportFileError(f"{path} cannot be read: {error}.") from error
    if array.ndim != 2 or array.dtype.kind != "f":
        raise ImportFileError(f"{path} holds {array.dtype} {array.shape}; rows of floats belong there.")
    embeddings = EmbeddingRows(dim=array.shape[1])
    embeddings.add(_row(one) for one in _lines(ids, side))
    embeddings.add_payloads((one["id"], one["meta"]) for one in _lines(ids, side) if one.get("meta"))
    if embeddings.count != len(array):
        raise ImportFileError(f"{path} has {len(array)} rows, and {ids} has {embeddings.count} lines.")
    embeddings.gather = lambda places: np.asarray(array[list(places)], np.float32)
    return embeddings


def _parquet(path: Path, side: Aspect) -> EmbeddingRows:
    with needs_extra("parquet"):
        from pyarrow import ArrowException, parquet
    embeddings = EmbeddingRows()
    try:
        with TemporaryFile() as features:
            for batch in parquet.ParquetFile(path).iter_batches():
                vectors = np.stack(batch.column("vector").to_numpy(zero_copy_only=False)).astype(np.float32)
                if embeddings.dim not in (0, vectors.shape[1]):
                    raise ValueError(f"vectors of {embeddings.dim} and of {vectors.shape[1]} numbers")
                embeddings.dim = vectors.shape[1]
                vectors.tofile(features)
                optional = [name for name in ("side", "text") if name in batch.schema.names]
                lines = batch.select(["id", *optional]).to_pylist()
                embeddings.add(_row({"side": side, **line}) for line in lines)
            shape = embeddings.count, embeddings.dim
            mapped: Features = np.memmap(features, np.float32, "r", shape=shape)
    except (ArrowException, OSError, KeyError, ValueError) as error:
        raise ImportFileError(
            f"{path} cannot be read: {error}. It needs the columns id and vector, all of one length, "
            "and may have side and text."
        ) from error
    embeddings.gather = lambda places: mapped[list(places)]
    return embeddings


def _lines(path: Path, side: Aspect) -> Iterator[dict[str, Any]]:
    """One id a line; or, in a .jsonl, {"id": …, "side": …, "text": …, "meta": {…}}."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield {"side": side, **_parsed(path, number, line.rstrip("\n"))}
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFileError(f"{path} cannot be read: {error}.") from error


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    if path.suffix != ".jsonl":
        return {"id": line}
    try:
        one = json.loads(line)
    except ValueError as error:
        raise ImportFileError(f"{path}, line {number}: {error}.") from error
    if not isinstance(one, dict) or not isinstance(one.get("id"), str):
        raise ImportFileError(f'{path}, line {number}: there is no {{"id": "…"}}.')
    return one


def _row(line: Mapping[str, Any]) -> ImportedRow:
    if line["side"] not in ASPECTS:
        raise ImportFileError(f"Item {line['id']!r}: the side must be one of {', '.join(ASPECTS)}.")
    return str(line["id"]), KIND_OF_ASPECT[line["side"]], None, line.get("text")
