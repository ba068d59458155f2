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


def file_of(header: object) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(24)


def test_tables_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", TABLES)
    found = read_tables(tmp_path / "tables")
    assert found.keys() == TABLES.keys()
    for name, table in TABLES.items():
        assert np.array_equal(found[name], table)
        assert found[name].dtype == table.dtype
    with pytest.raises(ValueError, match="read-only"):
        found["a"][:] = 0


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


def described(**changes: object) -> bytes:
    table = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}
    return file_of({"one": table})


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
        described() + bytes(8),
        described(dtype="BF16", shape=[12]),
        described(dtype="F13"),
        *(described(shape=shape) for shape in ([3, 4], [-1, -24], [1 << 62, 1 << 62], "ab", [2.0, 3.0])),
        *(described(data_offsets=places) for places in ([0, 240], [24, 0], [-24, 0], None)),
    ],
)
def test_a_file_that_is_another_or_damaged_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(TensorFileError, match="bad"):
        read_tables(tmp_path / "bad")
