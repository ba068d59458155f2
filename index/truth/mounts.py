"""Which file system a folder lies on: locks and SQLite's write-ahead log cannot be trusted over a network."""

import re
from pathlib import Path

from multifold.errors import MultifoldError

MOUNTS = Path("/proc/self/mounts")
NETWORK = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|davfs2?|gfs2?|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|smb3|smbfs"
    r"|fuse\.(ceph|cephfs|davfs2?|gcsfuse|glusterfs|goofys|juicefs|mfs|rclone|s3fs|seaweedfs|smbnetfs|sshfs)"
)


class NetworkFolderError(MultifoldError):
    """The folder lies on a file system that the embedded store cannot trust."""


def refuse_network(folder: Path, mounts: Path = MOUNTS) -> None:
    """Raise if the folder lies on a network file system. Where nobody lists the mounts, nothing is known."""
    kind = file_system(folder, mounts)
    if kind is not None and NETWORK.fullmatch(kind):
        raise NetworkFolderError(
            f"{folder} lies on a network file system ({kind}), where locks and SQLite's log "
            "cannot be trusted. Put the collection on a local disk."
        )


def file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds a folder, None where nobody lists the mounts."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return None
    place, deepest, kind = folder.resolve(), -1, None
    for line in lines:
        _, point, this, *_ = line.split(" ")
        root = Path(_unescape(point))
        if place.is_relative_to(root) and len(root.parts) >= deepest:
            deepest, kind = len(root.parts), this
    return kind


def _unescape(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point)
