"""Tables come back as they were written; a damaged or hostile file is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from multifold.bundle.tensor_file import TensorFileError, read_tables, write_tables

TABLES: dict[str, np.ndarray] = {
    "a": np.arange(24, dtype=np.float16).reshape(4, 6),
    "b": np.arange(5),
    "c": np.ones((2, 0, 3), np.float32),
    "d": np.arange(9, dtype=np.int8),
    "e": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def file_of(header: object, numbers: int = 24) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(numbers)


def test_tables_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", TABLES)
    found = read_tables(tmp_path / "tables")
    assert found.keys() == TABLES.keys()
    for name, table in TABLES.items():
        assert np.array_equal(found[name], table)
        assert found[name].dtype == table.dtype
    with pytest.raises(ValueError, match="read-only"):
        found["a"][:] = 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08\0\0",
        b"\x80\x04\x95" + b"\0" * 60,
        b"\xff" * 16,
        (4).to_bytes(8, "little") + b"}{}{",
        file_of([1]),
        file_of({"one": 1}),
        file_of({"one": {"dtype": "BF16", "shape": [12], "data_offsets": [0, 24]}}),
        file_of({"one": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, numbers=32),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(TensorFileError, match="bad"):
        read_tables(tmp_path / "bad")


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "F13"},
        {"shape": [3, 4]},
        {"shape": [-1, -24]},
        {"shape": [1 << 62, 1 << 62]},
        {"shape": "ab"},
        {"shape": [2.0, 3.0]},
        {"data_offsets": [0, 240]},
        {"data_offsets": [24, 0]},
        {"data_offsets": [-24, 0]},
        {"data_offsets": None},
    ],
)
def test_a_table_that_reaches_beyond_its_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    described = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **change}
    (tmp_path / "bad").write_bytes(file_of({"one": described}))
    with pytest.raises(TensorFileError, match="is damaged"):
        read_tables(tmp_path / "bad")


def test_no_flipped_byte_breaks_out(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", TABLES)
    whole = (tmp_path / "tables").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        bad = bytearray(whole)
        bad[rng.integers(len(bad))] = rng.integers(256)
        (tmp_path / "bad").write_bytes(bad[: rng.integers(len(bad)) if rng.random() < 0.3 else len(bad)])
        try:
            tables = read_tables(tmp_path / "bad")
        except TensorFileError:
            continue
        for table in tables.values():
            table.sum()
