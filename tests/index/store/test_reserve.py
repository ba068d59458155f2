"""On a full disk the room that was kept makes way, and a lock is held though nothing can be written."""

import errno
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from index.store import reserve
from index.store.folder_locks import LockError, WriterLock


class Usage(NamedTuple):
    free: int


def disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))


def test_room_is_kept_while_there_is_some_and_makes_way_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / reserve.NAME
    disk(monkeypatch, 1 << 30)
    reserve.keep_room(tmp_path)
    assert file.stat().st_blocks * 512 >= reserve.SIZE  # a hole would keep nothing
    disk(monkeypatch, 4096)
    for _ in range(2):
        reserve.keep_room(tmp_path)
        assert not file.exists()
    disk(monkeypatch, reserve.SIZE + 4096)  # what there is belongs to others
    reserve.keep_room(tmp_path)
    assert not file.exists()


def test_a_writer_keeps_room_for_the_next_one(tmp_path: Path) -> None:
    WriterLock(tmp_path).release()
    assert (tmp_path / reserve.NAME).stat().st_size == reserve.SIZE


def test_a_lock_holds_though_a_full_disk_takes_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "pwrite", full)
        lock = WriterLock(tmp_path, "http://somewhere")
    with pytest.raises(LockError, match="is being written by another process"):
        WriterLock(tmp_path)
    lock.release()
    WriterLock(tmp_path).release()
