"""A snapshot that is damaged, foreign or hostile is refused with the reason, and becomes no collection."""

import hashlib
import io
import json
import re
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index.maintenance.archive import END, ArchiveWriter
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import SnapshotError
from multifold.errors import MultifoldError

HEAD = "multifold.json"


def test_another_encoder_is_refused_by_name(taken: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"'sphere'.*'other'"):
        restore_snapshot(taken, tmp_path / "copy", vector_id="other")
    assert restore_snapshot(taken, tmp_path / "copy", vector_id="sphere").vector_id == "sphere"


KILLED = """
import os, signal, sys
from pathlib import Path
from index.maintenance.restore import restore_snapshot
def kill(_): os.kill(os.getpid(), signal.SIGKILL)
restore_snapshot(Path(sys.argv[1]), Path(sys.argv[2]), on_progress=kill)
"""


def test_a_restore_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(
    taken: Path, tmp_path: Path
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", KILLED, taken, tmp_path / "copy"], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert {path.name for path in tmp_path.iterdir()} - before == {".writing-copy"}
    restore_snapshot(taken, tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} - before == {"copy"}


def read_head(taken: Path) -> bytes:
    """What a snapshot says of itself."""
    with tarfile.open(taken) as archive:
        source = archive.extractfile(HEAD)
        assert source is not None
        return source.read()


def refused(path: Path, tmp_path: Path, reason: str) -> None:
    """It is refused with a reason, and leaves nothing behind."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(MultifoldError, match=reason):
        restore_snapshot(path, tmp_path / "copy")
    assert sorted(tmp_path.iterdir()) == before


def test_every_flipped_bit_is_found(taken: Path, tmp_path: Path) -> None:
    whole = taken.read_bytes()
    end = whole.rindex(b"}") + 1  # then come zeros that pad the last block
    places = np.random.default_rng(0).choice(end, 60, replace=False).tolist()
    bad = tmp_path / "bad.tar"
    for place in [*places, 0, 156, 512, end - 1]:
        bad.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        refused(bad, tmp_path, ".")


def test_every_cut_is_found(taken: Path, tmp_path: Path) -> None:
    whole = taken.read_bytes()
    bad = tmp_path / "bad.tar"
    for length in [0, 1, 511, 512, 600, *range(1024, len(whole) - 2048, 3711)]:
        bad.write_bytes(whole[:length])
        refused(bad, tmp_path, "damaged")


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="No such file"):
        restore_snapshot(tmp_path / "nothing.tar", tmp_path / "copy")
    (tmp_path / "text.tar").write_text("hello " * 400)
    refused(tmp_path / "text.tar", tmp_path, "no snapshot")
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(__file__, "multifold.py")
    refused(tmp_path / "other.tar", tmp_path, "no snapshot")
    with open(tmp_path / "empty.tar", "wb") as file:
        ArchiveWriter(file).finish({"blobs": 0, "absent": []})
    refused(tmp_path / "empty.tar", tmp_path, "no snapshot")


def rewritten(taken: Path, out: Path, edit: Callable[[str, bytes], list[tuple[str, bytes]]]) -> Path:
    """A snapshot with other members, whose own sum is right again."""
    with tarfile.open(taken) as archive, open(out, "wb") as file:
        writer = ArchiveWriter(file)
        for member in archive:
            source = archive.extractfile(member)
            assert source is not None
            if member.name == END:
                writer.finish({"blobs": 1, "absent": []})
            else:
                for name, data in edit(member.name, source.read()):
                    writer.add_bytes(name, data)
    return out


def beside(name: str) -> Callable[[str, bytes], list[tuple[str, bytes]]]:
    return lambda held, data: [(held, data), (name, data)] if held.startswith("blobs") else [(held, data)]


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "blobs/../../evil", "blobs/ab/" + "0" * 64, "index/current.json", "writer.lock"],
)
def test_names_that_do_not_belong_are_refused(taken: Path, tmp_path: Path, name: str) -> None:
    refused(rewritten(taken, tmp_path / "bad.tar", beside(name)), tmp_path, "no snapshot")
    assert not (tmp_path.parent / "evil").exists()


def test_a_picture_too_many_is_refused(taken: Path, tmp_path: Path) -> None:
    key = hashlib.sha256(b"more").hexdigest()

    def more(name: str, data: bytes) -> list[tuple[str, bytes]]:
        extra = [(f"blobs/{key[:2]}/{key}", b"more")] if name.startswith("blobs") else []
        return [(name, data), *extra]

    refused(rewritten(taken, tmp_path / "bad.tar", more), tmp_path, "holds 2 pictures")
    gone = rewritten(taken, tmp_path / "less.tar", lambda n, d: [] if n.startswith("blobs") else [(n, d)])
    refused(gone, tmp_path, "holds 0 pictures")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE])
def test_links_folders_and_sparse_files_are_refused(taken: Path, tmp_path: Path, kind: bytes) -> None:
    head = read_head(taken)
    with tarfile.open(tmp_path / "bad.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        told = tarfile.TarInfo(HEAD)
        told.size = len(head)
        archive.addfile(told, io.BytesIO(head))
        link = tarfile.TarInfo("store.sqlite")
        link.type, link.linkname = kind, "/etc/passwd"
        archive.addfile(link)
    refused(tmp_path / "bad.tar", tmp_path, "not a regular file")


def test_a_member_larger_than_the_file_is_refused(taken: Path, tmp_path: Path) -> None:
    told = tarfile.TarInfo(HEAD)
    told.size = 1 << 50
    (tmp_path / "bad.tar").write_bytes(told.tobuf(tarfile.GNU_FORMAT) + taken.read_bytes())
    refused(tmp_path / "bad.tar", tmp_path, "too long")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM meta; END", "holds 't'"),
        ("CREATE VIEW v AS SELECT 1", "holds 'v'"),
        ("DELETE FROM items WHERE id = 'item 3'", "does not hold what it states"),
        ("UPDATE meta SET value = 'other' WHERE key = 'vector_id'", "'other'"),
        ("UPDATE observations SET blob = NULL", "just the pictures"),
    ],
)
def test_a_store_that_is_not_as_stated_is_refused(
    taken: Path, tmp_path: Path, script: str, reason: str
) -> None:
    def harmed(name: str, data: bytes) -> list[tuple[str, bytes]]:
        file = tmp_path / "store"
        if name == "store.sqlite":
            file.write_bytes(data)
            with sqlite3.connect(file) as store:
                store.executescript(script)
            store.close()
            data = file.read_bytes()
            file.unlink()
            digest[1] = hashlib.sha256(data).hexdigest()
        return [(name, data)]

    digest = [json.loads(read_head(taken))["store_sha256"], ""]
    first = rewritten(taken, tmp_path / "first.tar", harmed)
    again = rewritten(
        first, tmp_path / "bad.tar", lambda n, d: [(n, d.replace(digest[0].encode(), digest[1].encode()))]
    )
    refused(again, tmp_path, reason)


@pytest.mark.parametrize(
    ("there", "instead", "reason"),
    [(rb'"schema": \d+', b'"schema": 99', "schema 99"), (rb'"sphere"', b"null", "does not describe")],
)
def test_a_head_that_says_something_else_is_refused(
    taken: Path, tmp_path: Path, there: bytes, instead: bytes, reason: str
) -> None:
    head = re.sub(there, instead, read_head(taken))
    bad = rewritten(taken, tmp_path / "bad.tar", lambda n, d: [(n, head if n == HEAD else d)])
    refused(bad, tmp_path, reason)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"[1]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"{}", "format None"),
        (b'{"format": 1}', "does not describe"),
    ],
)
def test_a_damaged_head_is_said_to_be_damaged(taken: Path, tmp_path: Path, head: bytes, reason: str) -> None:
    bad = rewritten(taken, tmp_path / "bad.tar", lambda n, d: [(n, head if n == HEAD else d)])
    refused(bad, tmp_path, reason)
