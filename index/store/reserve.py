"""A file that only takes room: on a full disk it makes way for what opening a store has to write."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
SIZE = 1 << 20  # bytes; a store needs 32 kB for what its connections share, and a few lines


def keep_room(folder: Path) -> None:
    """Keep room for another start; free what was kept if the disk has no other."""
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
        if free < SIZE:
            (folder / NAME).unlink(missing_ok=True)
        elif free > 2 * SIZE:
            handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                if sys.platform == "darwin":
                    os.pwrite(handle, bytes(SIZE), 0)
                else:
                    os.posix_fallocate(handle, 0, SIZE)
            finally:
                os.close(handle)
