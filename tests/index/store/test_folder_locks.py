"""One process writes; network file systems are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from index.store.folder_locks import (
    LockError,
    NetworkFolderError,
    WriterLock,
    file_system,
    refuse_network,
    writer_of,
)

HOLD = """
import sys, time
from pathlib import Path
from index.store.folder_locks import WriterLock
lock = WriterLock(Path(sys.argv[1]), "http://127.0.0.1:8000")
print("held", flush=True)
time.sleep(60)
"""
MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /srv nfs4 rw 0 0
/dev/sdb1 /srv/local ext4 rw 0 0
host:/x /srv/with\040space fuse.sshfs rw 0 0
tmpfs /srvother tmpfs rw 0 0
//nas/a /mnt/a cifs rw 0 0
/dev/sdc1 /mnt/a xfs rw 0 0
"""


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    assert writer_of(tmp_path) is None
    lock = WriterLock(tmp_path, "http://127.0.0.1:8000")
    assert writer_of(tmp_path) == "http://127.0.0.1:8000"
    with pytest.raises(LockError, match=r"written by http://127\.0\.0\.1:8000"):
        WriterLock(tmp_path, "http://127.0.0.1:9000")
    lock.release()
    lock.release()
    assert writer_of(tmp_path) is None
    WriterLock(tmp_path).release()


def test_another_process_is_kept_out_until_it_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LockError, match="127"):
            WriterLock(tmp_path)
        other.kill()
    assert writer_of(tmp_path) is None
    WriterLock(tmp_path).release()


def test_an_unsigned_lock_is_still_a_lock(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path, "me")
    (tmp_path / "writer.lock").write_bytes(b"")
    assert writer_of(tmp_path) == "another process"
    with pytest.raises(LockError, match="another process"):
        WriterLock(tmp_path)
    lock.release()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/x/y", "nfs4"),
        ("/srv/local/x", "ext4"),
        ("/srv/with space/x", "fuse.sshfs"),
        ("/srvother/x", "tmpfs"),
        ("/mnt/a", "xfs"),
    ],
)
def test_network_folders_are_refused(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.strip())
    assert file_system(Path(folder), mounts) == kind
    if kind in ("nfs4", "fuse.sshfs"):
        with pytest.raises(NetworkFolderError, match=kind):
            refuse_network(Path(folder), mounts)
    else:
        refuse_network(Path(folder), mounts)


def test_where_no_mounts_are_listed_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network(tmp_path, tmp_path / "missing")
