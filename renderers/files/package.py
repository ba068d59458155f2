"""The zip archive that a 3MF file is: its sizes are checked before anything is unpacked."""

import io
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any

from renderers.errors import MeshError
from renderers.limits import Limits

_MOST_ENTRIES = 10_000
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError)


@dataclass
class Package:
    """Reads entries by name; nothing is ever written to disk."""

    data: bytes
    limits: Limits
    _archive: zipfile.ZipFile = field(init=False)
    _read: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(self.data))
        except _BROKEN as error:
            raise MeshError("the 3mf file is cut short or damaged. Export it anew.") from error
        self.limits.check("entries", len(self._archive.infolist()), _MOST_ENTRIES)

    def __contains__(self, name: Any) -> bool:  # noqa: ANN401 (what `in` is asked for)
        return name.lstrip("/") in self._archive.NameToInfo

    def read(self, name: str) -> bytes:
        """The bytes of one entry."""
        name = name.lstrip("/")
        if name not in self._archive.NameToInfo:
            raise MeshError(f"the 3mf file is damaged: it holds no {name[:80]!r}. Export it anew.")
        if name not in self._read:
            self._read[name] = self._unpack(self._archive.NameToInfo[name])
        return self._read[name]

    def _unpack(self, info: zipfile.ZipInfo) -> bytes:
        size = sum(map(len, self._read.values())) + info.file_size
        self.limits.check("bytes once unpacked", size, self.limits.unpacked_bytes)
        try:
            with self._archive.open(info) as entry:
                return entry.read()
        except _BROKEN as error:
            raise MeshError("the 3mf file is damaged, or locked by a password. Export it anew.") from error
