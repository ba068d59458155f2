"""Files survive a crash: bytes are on the disk before they have their name."""

import os
from pathlib import Path

import pytest

from multifold import durable


def test_bytes_are_synced_before_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        order.append("sync")
        fsync(handle)

    def name(self: Path, target: Path) -> Path:
        order.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", name)
    with durable.replace_file(tmp_path / "file") as out:
        out.write(b"a picture")
    assert order == ["sync", "name", "sync"]
