"""Shards come back as they were written, survive being stopped, and never hide damage."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multifold.durable import temporary_path
from multifold.files.feature_shards import (
    FeatureFolder,
    FeatureRow,
    ShardError,
    ShardWriter,
    read_description,
    read_features,
)
from multifold.types import Features, Kind

SPACE = "0123456789abcdef"
KINDS: tuple[Kind, ...] = ("caption", "photo", "view")


def some_rows(count: int) -> list[FeatureRow]:
    kinds = [KINDS[i % 3] for i in range(count)]
    return [
        FeatureRow(f"item-{i // 3}", k, i % 3, "a röd \ud800 chair" if k == "caption" else None)
        for i, k in enumerate(kinds)
    ]


def encode(rows: Sequence[FeatureRow], dim: int = 4) -> Features:
    """Features that depend on the row alone."""
    numbers = [[float(row.id[5:]), row.index, KINDS.index(row.kind)] for row in rows]
    return np.array([[*number, 0.5][:dim] for number in numbers], np.float32).reshape(len(rows), dim)


def fill(folder: Path, rows: Sequence[FeatureRow], batch: int = 5, per_shard: int = 7) -> None:
    with ShardWriter(folder, SPACE, 4, per_shard) as out:
        for start in range(0, len(rows), batch):
            missing = [row for row in rows[start : start + batch] if row not in out]
            out.write(missing, encode(missing))


def content(folder: Path) -> dict[FeatureRow, tuple[float, ...]]:
    return {
        r: tuple(f)
        for rows, features in read_features(folder, SPACE)
        for r, f in zip(rows, features.tolist(), strict=True)
    }


def expected(rows: Sequence[FeatureRow]) -> dict[FeatureRow, tuple[float, ...]]:
    return dict(zip(rows, map(tuple, encode(rows).tolist()), strict=True))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 12))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, count: int, batch: int, per_shard: int
) -> None:
    folder, rows = tmp_path_factory.mktemp("shards"), some_rows(count)
    fill(folder, rows, batch, per_shard)
    assert list(content(folder).items()) == list(expected(rows).items())
    sizes = [len(rows) for rows, _ in read_features(folder)]
    assert all(size == per_shard for size in sizes[:-1])
    assert read_description(folder) == FeatureFolder(folder, SPACE, 4, count, read_description(folder).hashes)


def fill_and_stop(folder: Path, rows: Sequence[FeatureRow], stop_after: int) -> None:
    with ShardWriter(folder, SPACE, 4, 7) as out:
        for row in rows[:stop_after]:
            out.write([row], encode([row]))
        raise KeyboardInterrupt


@pytest.mark.parametrize("stop_after", [0, 3, 8, 20, 29])
def test_stopped_work_goes_on_where_it_ended(tmp_path: Path, stop_after: int) -> None:
    rows = some_rows(30)
    with pytest.raises(KeyboardInterrupt):
        fill_and_stop(tmp_path, rows, stop_after)
    with pytest.raises(ShardError, match="not finished"):
        read_description(tmp_path)
    with ShardWriter(tmp_path, SPACE, 4, 7) as out:
        missing = [row for row in rows if row not in out]
        out.write(missing, encode(missing))
    assert len(missing) == 30 - stop_after // 7 * 7
    assert content(tmp_path) == expected(rows)


def test_a_half_written_shard_is_written_anew(tmp_path: Path) -> None:
    rows = some_rows(30)
    ShardWriter(tmp_path, SPACE, 4, 7).write(rows[:25], encode(rows[:25]))  # nobody ends it
    assert [row for row in rows if row in ShardWriter(tmp_path, SPACE, 4, 7)] == rows[:21]
    fill(tmp_path, rows)
    (tmp_path / "00001.json").unlink()
    (tmp_path / "00003.npy").write_bytes(b"cut short")
    left = temporary_path(tmp_path / "00000.npy")
    left.write_bytes(b"left behind")
    fill(tmp_path, rows)
    assert not left.exists()
    assert content(tmp_path) == expected(rows)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_flipped_bit_is_never_hidden(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder, rows = tmp_path_factory.mktemp("shards"), some_rows(9)
    fill(folder, rows)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(raw))
    try:
        found = content(folder)
    except ShardError:
        return
    assert found == expected(rows)


def test_missing_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="not finished"):
        read_features(tmp_path)
    fill(tmp_path, some_rows(9))
    with pytest.raises(ShardError, match="not of ffff; encode them again"):
        read_features(tmp_path, "ffff")
    with pytest.raises(ShardError, match="choose another folder"):
        ShardWriter(tmp_path, "ffff", 4)
    with pytest.raises(ShardError, match="choose another folder"):
        ShardWriter(tmp_path, SPACE, 5)
    (tmp_path / "00001.npy").unlink()
    with pytest.raises(ShardError, match=r"00001\.npy is missing"):
        list(read_features(tmp_path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 2}, "format 2, and this version reads 1"),
        ({"shards": {"../00000": "0" * 64}}, "no name of a shard"),
        ({"shards": []}, "0 rows|promises"),
        ({"rows": 8}, "holds 9 rows"),
        ({"vector_id": "ffff"}, "another space"),
    ],
)
def test_a_manifest_that_lies_is_refused(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    fill(tmp_path, some_rows(9))
    path = tmp_path / "shards.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ShardError, match=sentence):
        list(read_features(tmp_path))


def test_bad_features_are_refused_and_nothing_is_added(tmp_path: Path) -> None:
    rows = some_rows(2)
    with ShardWriter(tmp_path, SPACE, 4) as out:
        with pytest.raises(ShardError, match=r"need features \[2, 4\]"):
            out.write(rows, np.zeros((2, 3), np.float32))
        with pytest.raises(ShardError, match="not numbers"):
            out.write(rows, np.full((2, 4), np.nan, np.float32))
        with pytest.raises(ShardError, match="written twice"):
            out.write([rows[0], rows[0]], encode([rows[0], rows[0]]))
        out.write(rows, encode(rows))
        with pytest.raises(ShardError, match="written twice"):
            out.write(rows[:1], encode(rows[:1]))
    assert content(tmp_path) == expected(rows)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, some_rows(9))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            fill(tmp_path, some_rows(30))
    assert content(tmp_path) == expected(some_rows(9))
    fill(tmp_path, some_rows(30))
    assert content(tmp_path) == expected(some_rows(30))
