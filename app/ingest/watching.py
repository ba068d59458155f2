"""Whether anything in a folder has changed, by the names, sizes and times of its files."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

LOOK_SHARE = 20  # looks take at most one twentieth of the time


@dataclass
class FolderWatch:
    """Looks at a folder every few `seconds`, or less often if a look takes long.

    `pause` is what passes the time between two looks.
    """

    folder: Path
    skip: frozenset[Path]
    seconds: float
    pause: Callable[[float], object] = time.sleep
    next_look: float = field(default=0.0, init=False)

    def state(self) -> bytes:
        """Names, sizes and times of all files, as a hash."""
        return hash_folder_state(self.folder, self.skip)

    def settled(self, looks: int | None = None) -> bytes:
        """The state once it is the same in two looks, or after this number of looks."""
        state = self.state()
        for _ in count() if looks is None else range(looks):
            self.pause(self.seconds)
            before, state = state, self.state()
            if before == state:
                break
        return state

    def changed(self, since: bytes) -> bool:
        """Whether the folder has another state now, as far as it is time to look."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        changed = self.state() != since
        took = time.monotonic() - now
        self.next_look = now + max(self.seconds, LOOK_SHARE * took)
        return changed

    def wait_for_change(self, since: bytes) -> None:
        while not self.changed(since):
            self.pause(self.seconds)


def hash_folder_state(folder: Path, skip: frozenset[Path]) -> bytes:
    """Names, sizes and times of all files, and whether there is such a folder at all, as a hash."""
    digest = hashlib.sha256(b"there" if folder.is_dir() else b"gone")
    for parent, folders, names in os.walk(folder):
        shown = [name for name in folders if not name.startswith(".")]
        folders[:] = sorted(name for name in shown if Path(parent, name).resolve() not in skip)
        for name in sorted(names):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            digest.update(os.fsencode(path))
            digest.update(f" {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return digest.digest()
