"""Rows of an engine as a file: a line of JSON, the ids, the vectors, and the sha256 of all that."""

import hashlib
import json
from pathlib import Path

import numpy as np

from index.base import EngineError, Paired
from index.durable import replacing
from multifold.types import Metric, Vectors

DIGEST = hashlib.sha256().digest_size


def write(path: Path, metric: Metric, ids: Paired, vectors: Vectors) -> None:
    """Write rows durably and all at once."""
    header = json.dumps({"metric": metric, "rows": len(ids), "dim": vectors.shape[1]}).encode() + b"\n"
    digest = hashlib.sha256()
    with replacing(path) as out:
        for part in (header, _bytes(ids.astype("<i8")), _bytes(vectors.astype("<f4"))):
            digest.update(part)
            out.write(part)
        out.write(digest.digest())


def read(path: Path, metric: Metric, dim: int) -> tuple[Paired, Vectors]:
    """Read rows of this metric and length; anything else is an EngineError."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise EngineError(f"{path} cannot be read ({error.strerror})") from error
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise EngineError(f"{path} is damaged: delete it and it is rebuilt")
    line = bytes(data[:256]).partition(b"\n")[0]
    header = json.loads(line)
    if header["metric"] != metric or header["dim"] != dim:
        raise EngineError(
            f"{path} holds {header['metric']} vectors of {header['dim']}, not {metric} of {dim}"
        )
    rows, start = header["rows"], len(line) + 1
    ids = np.frombuffer(data, "<i8", rows, start).astype(np.int64)
    vectors = np.frombuffer(data, "<f4", rows * dim, start + 8 * rows).astype(np.float32)
    return ids, vectors.reshape(rows, dim)


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")
