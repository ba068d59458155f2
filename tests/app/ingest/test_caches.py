"""Hashes of files are taken from the cache as long as nothing about the file has changed."""

import os
from pathlib import Path

from app.ingest.caches import ContentCache
from tests.files import put


def test_a_change_is_seen_whatever_the_times_say(tmp_path: Path) -> None:
    picture = put(tmp_path / "a.png", b"one")
    with ContentCache(tmp_path / "contents.sqlite", settled=0) as contents:
        before = contents.of(picture)
        times = picture.stat()
        put(picture, b"two")
        os.utime(picture, ns=(times.st_atime_ns, times.st_mtime_ns))
        changed = contents.of(picture)
        assert changed.hash != before.hash
        assert contents.of(picture) == changed
        os.utime(picture)
        assert contents.of(picture).hash == changed.hash
        assert not changed.is_current()


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "contents.sqlite").write_bytes(b"no database at all" * 100)
    with ContentCache(tmp_path / "contents.sqlite") as contents:
        assert contents.of(put(tmp_path / "a.png", b"one")).is_current()
