"""Checksummed files of rows, read memory-mapped.

FAISS files have no checksum and load flipped bits silently, so nothing of a file is used before its sum is
checked. Blocks begin at multiples of 64 bytes: arrays are read in place, memory-mapped.
"""

import hashlib
import json
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from index.contracts import IndexEngineError, PairedIds
from multifold.durable import replace_file
from multifold.types import Metric, Vectors

Header: TypeAlias = dict[str, Any]
DIGEST = hashlib.sha256().digest_size
ALIGNED = 64
PIECE = 1 << 24  # bytes hashed and written at once
IDS, FLOATS = "<i8", "<f4"


def write_rows(path: Path, metric: Metric, ids: PairedIds, vectors: Vectors) -> None:
    """Write rows durably and all at once."""
    header = {"metric": metric, "rows": len(ids), "dim": vectors.shape[1]}
    write_blocks(path, header, [as_bytes(ids, IDS), as_bytes(vectors, FLOATS)])


def read_rows(path: Path, metric: Metric, dim: int) -> tuple[PairedIds, Vectors]:
    """Read rows of this metric and length; anything else is an IndexEngineError."""
    header, blocks = read_blocks(path, metric, dim)
    return rows_from_blocks(header, blocks)


def rows_from_blocks(header: Header, blocks: Sequence[memoryview]) -> tuple[PairedIds, Vectors]:
    """Ids and vectors, in place: the first two blocks of every file."""
    return array_of(blocks[0], IDS), array_of(blocks[1], FLOATS).reshape(-1, header["dim"])


def write_blocks(path: Path, header: Mapping[str, Any], blocks: Sequence[memoryview]) -> None:
    """Write blocks durably and all at once."""
    line = json.dumps({**header, "blocks": [block.nbytes for block in blocks]}).encode() + b"\n"
    digest = hashlib.sha256()
    with replace_file(path) as out:
        for block in (memoryview(line), *blocks):
            for start in range(0, block.nbytes, PIECE):
                digest.update(block[start : start + PIECE])
                out.write(block[start : start + PIECE])
            padding = bytes(-block.nbytes % ALIGNED)
            digest.update(padding)
            out.write(padding)
        out.write(digest.digest())


def read_blocks(path: Path, metric: Metric, dim: int) -> tuple[Header, list[memoryview]]:
    """The header and the blocks of a file whose sum is right and whose vectors are of this kind."""
    data = _mapped(path)
    if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise IndexEngineError(f"{path} is damaged: delete it and it is rebuilt")
    line = bytes(data[: 1 << 16]).partition(b"\n")[0] + b"\n"
    header = json.loads(line)
    if header["metric"] != metric or header["dim"] != dim:
        raise IndexEngineError(
            f"{path} holds {header['metric']} vectors of {header['dim']}, not {metric} of {dim}"
        )
    blocks, start = [], _aligned(len(line))
    for size in header["blocks"]:
        blocks.append(data[start : start + size])
        start += _aligned(size)
    return header, blocks


def as_bytes(array: np.ndarray, kind: str) -> memoryview:
    """An array as a block."""
    array = np.ascontiguousarray(array, kind)
    return array.data.cast("B") if array.size else memoryview(b"")


def array_of(block: memoryview, kind: str) -> np.ndarray:
    """A block as an array, in place."""
    return np.frombuffer(block, kind) if block.nbytes else np.empty(0, kind)


def _mapped(path: Path) -> memoryview:
    try:
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:  # an empty file cannot be mapped
        return memoryview(b"")
    except OSError as error:
        raise IndexEngineError(f"{path} cannot be read ({error.strerror})") from error


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
