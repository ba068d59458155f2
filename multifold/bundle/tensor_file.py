"""Tables of numbers in the safetensors layout, mapped into memory.

The library safetensors checks a file and writes one. Its own reading for numpy copies every table.
"""

import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from multifold.durable import write_file
from multifold.errors import MultifoldError

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}


class TensorFileError(MultifoldError):
    """A file of tables that is damaged or holds something else."""


def read_tables(path: Path) -> dict[str, np.ndarray]:
    """Every table of a file by name, mapped into memory and read-only."""
    tables: dict[str, np.ndarray] = {}
    try:
        with safe_open(path, framework="numpy") as checked, open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            end = 8 + int.from_bytes(data[:8], "little")  # of the header; the tables follow without gaps
            for name in checked.offset_keys():
                described = checked.get_slice(name)
                kind = np.dtype(DTYPES[described.get_dtype()])
                shape = described.get_shape()
                start, end = end, end + prod(shape) * kind.itemsize
                tables[name] = np.frombuffer(data[start:end], kind).reshape(shape)
    except OSError as error:
        raise TensorFileError(f"{path} cannot be read: {error}") from error
    except (SafetensorError, ValueError) as error:
        raise TensorFileError(f"{path} is damaged, or no file of tables: {error}") from error
    except KeyError as error:
        raise TensorFileError(f"{path} has a table of {error}; known are {', '.join(DTYPES)}") from error
    return tables


def write_tables(path: Path, tables: Mapping[str, np.ndarray]) -> None:
    """Write tables into a file, durably and all at once."""
    write_file(path, save({name: np.ascontiguousarray(table) for name, table in tables.items()}))
