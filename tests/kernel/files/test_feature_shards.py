"""Shards come back as they were written, and never hide damage."""

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
    FeatureShard,
    ShardError,
    read_description,
    read_features,
    seal_folder,
    write_shard,
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


def fill(folder: Path, rows: Sequence[FeatureRow], per_shard: int = 7) -> None:
    for start in range(0, len(rows), per_shard):
        some = tuple(rows[start : start + per_shard])
        write_shard(folder, f"{start:05d}", FeatureShard(SPACE, some, encode(some)))
    assert seal_folder(folder, SPACE, 4) == len(rows)


def content(folder: Path) -> dict[FeatureRow, tuple[float, ...]]:
    return {
        r: tuple(f)
        for rows, features in read_features(folder, SPACE)
        for r, f in zip(rows, features.tolist(), strict=True)
    }


def expected(rows: Sequence[FeatureRow]) -> dict[FeatureRow, tuple[float, ...]]:
    return dict(zip(rows, map(tuple, encode(rows).tolist()), strict=True))


@pytest.mark.parametrize(("count", "per_shard"), [(0, 7), (1, 7), (14, 7), (30, 7), (5, 1)])
def test_what_was_written_is_read(tmp_path: Path, count: int, per_shard: int) -> None:
    rows = some_rows(count)
    fill(tmp_path, rows, per_shard)
    assert list(content(tmp_path).items()) == list(expected(rows).items())
    hashes = read_description(tmp_path).hashes
    assert read_description(tmp_path) == FeatureFolder(tmp_path, SPACE, 4, count, hashes)


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    left = temporary_path(tmp_path / "00000.npy")
    left.write_bytes(b"left behind")
    fill(tmp_path, some_rows(30))
    assert not left.exists()


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
    for space, dim in (("ffff", 4), (SPACE, 5)):
        with pytest.raises(ShardError, match="choose another folder"):
            seal_folder(tmp_path, space, dim)
    (tmp_path / "00007.npy").unlink()
    with pytest.raises(ShardError, match=r"00007\.npy is missing"):
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
