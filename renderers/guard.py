"""A second wall around parsers: while a mesh is loaded, Python opens no file outside its folder.

Our readers keep to the folder by themselves; this stops a parser of others that doesn't. It also starts no
process, opens no connection and writes nothing. What Python's own libraries need is open to reading.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork")
_FORBIDDEN_CHANGES = ("os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Watches what this process does from now on, but only within `reading`; made once in a process."""

    def __init__(self) -> None:
        libraries = {sys.prefix, sys.base_prefix, *(path or os.getcwd() for path in sys.path)}
        self._libraries = tuple(os.path.realpath(path) for path in libraries)
        self._folder: str | None = None
        sys.addaudithook(self._audit)

    @contextmanager
    def reading(self, folder: Path) -> Iterator[None]:
        """Only this folder is open to reading until the end of the block."""
        self._folder = os.path.realpath(folder)
        try:
            yield
        finally:
            self._folder = None

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        folder = self._folder
        if folder is None:
            return
        if event in _FORBIDDEN or event in _FORBIDDEN_CHANGES:
            raise PermissionError(f"{event} is not allowed while a mesh is loaded")
        if event == "open" and not self._may_open(folder, *args):
            raise PermissionError("no file outside its folder is read while a mesh is loaded")

    def _may_open(self, folder: str, path: object, _: object, flags: object) -> bool:
        if not isinstance(path, (str, bytes)):
            return True  # a descriptor that is open already
        writing = isinstance(flags, int) and flags & _WRITING != 0
        real = os.path.realpath(os.fsdecode(path))
        return not writing and any(_inside(real, root) for root in (folder, *self._libraries))


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
