"""Tables of numbers in the safetensors layout, read in place and without running anything that is in them.

A file has the length of a JSON header, the header, and the numbers of every table one after the other.
"""

import json
import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from multifold.durable import write_file
from multifold.errors import MultifoldError

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
MOST_HEADER = 100_000_000  # bytes, as the layout allows
ALIGNED = 8


class TensorFileError(MultifoldError):
    """A file of tables that is damaged or holds something else."""


def read_tables(path: Path) -> dict[str, np.ndarray]:
    """Every table of a file by name, mapped into memory and read-only."""
    try:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise TensorFileError(f"{path} cannot be read: {error}") from error
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, MOST_HEADER):
        raise TensorFileError(f"{path} is no file of tables, or it is cut short")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
        described = {name: one for name, one in header.items() if name != "__metadata__"}
        return {name: _table(one, data[8 + length :]) for name, one in described.items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise TensorFileError(f"{path} is damaged: {error!r}") from error


def write_tables(path: Path, tables: Mapping[str, np.ndarray]) -> None:
    """Write tables into a file, durably and all at once."""
    names = {np.dtype(kind): name for name, kind in DTYPES.items()}
    header: dict[str, object] = {}
    end = 0
    for name, table in tables.items():
        start, end = end, end + table.nbytes
        header[name] = {
            "dtype": names[table.dtype],
            "shape": list(table.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    numbers = [np.ascontiguousarray(table).tobytes() for table in tables.values()]
    write_file(path, b"".join([len(text).to_bytes(8, "little"), text, *numbers]))


def _table(described: Mapping[str, Any], data: memoryview) -> np.ndarray:
    """One table; places outside the file and lengths that do not fit are ValueErrors."""
    kind, shape = np.dtype(DTYPES[described["dtype"]]), [*described["shape"]]
    start, end = described["data_offsets"]
    if not all(type(size) is int and size >= 0 for size in (*shape, start, end)) or end > len(data):
        raise ValueError(f"a table of {shape} at {start}:{end}")
    if end - start != prod(shape) * kind.itemsize:
        raise ValueError(f"{end - start} bytes for a table of {shape}")
    return np.frombuffer(data[start:end], kind).reshape(shape)
