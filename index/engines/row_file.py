"""Checksummed files of rows, read memory-mapped.

FAISS files have no checksum and load flipped bits silently, so nothing of a file is used before its sum is
checked. A line of JSON is followed by arrays, which begin at multiples of 64 bytes: ids, vectors, others.
"""

import hashlib
import json
import mmap
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from index.contracts import IndexEngineError, PairedIds
from multifold.durable import replace_file
from multifold.types import Metric, Vectors

Header: TypeAlias = dict[str, Any]
DIGEST = hashlib.sha256().digest_size
ALIGNED = 64
IDS, FLOATS, BYTES = "<i8", "<f4", "u1"


def write_rows(
    path: Path, metric: Metric, ids: PairedIds, vectors: Vectors, *others: np.ndarray, **header: object
) -> None:
    """Write rows and what belongs to them durably and all at once."""
    header = {"metric": metric, "rows": len(ids), "dim": vectors.shape[1], **header}
    arrays = (ids, vectors, *others)
    little = (np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for array in arrays)
    blocks = [array.reshape(-1).view(np.uint8).data for array in little]
    line = json.dumps({**header, "blocks": [len(block) for block in blocks]}).encode() + b"\n"
    digest = hashlib.sha256()
    with replace_file(path) as out:
        for block in (memoryview(line), *blocks):
            for piece in (block, bytes(-len(block) % ALIGNED)):
                digest.update(piece)
                out.write(piece)
        out.write(digest.digest())


def read_rows(path: Path, metric: Metric, dim: int, *others: str) -> tuple[Header, list[np.ndarray]]:
    """The header, ids, vectors and arrays of other kinds, in place; damaged or foreign files are errors."""
    data = _mapped(path)
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise IndexEngineError(f"{path} is damaged: delete it and it is rebuilt")
    line = bytes(data[: 1 << 16]).partition(b"\n")[0]
    header = json.loads(line)
    if header["metric"] != metric or header["dim"] != dim:
        raise IndexEngineError(
            f"{path} holds {header['metric']} vectors of {header['dim']}, not {metric} of {dim}"
        )
    arrays, end = list[np.ndarray](), len(line) + 1
    for kind, size in zip((IDS, FLOATS, *others), header["blocks"], strict=False):
        start = end + -end % ALIGNED
        end = start + size
        arrays.append(np.frombuffer(data[start:end], kind))
    arrays[1] = arrays[1].reshape(-1, dim)
    return header, arrays


def _mapped(path: Path) -> memoryview:
    try:
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:  # an empty file cannot be mapped
        return memoryview(b"")
    except OSError as error:
        raise IndexEngineError(f"{path} cannot be read ({error.strerror})") from error
