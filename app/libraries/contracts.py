"""What an ingest needs to know of a library: its items, and the files of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from multifold.errors import MultifoldError


class LibraryError(MultifoldError):
    """A library, or one thing in it, cannot be read; says why and what to do."""


@dataclass(frozen=True)
class LibraryLimits:
    """How much is read of a library; one that has more says so."""

    items: int = 100_000
    file_bytes: int = 2 << 30
    all_bytes: int = 1 << 40  # that a run reads, of files and of answers


@dataclass(frozen=True)
class LibraryFile:
    """A mesh or a picture of an item."""

    name: str  # by which it is kept here, with its extension
    version: str  # another one where its bytes are others
    address: str


@dataclass(frozen=True)
class LibraryItem:
    """An item as the library describes it; its payload leads back there by `link`."""

    texts: tuple[str, ...]
    files: tuple[LibraryFile, ...]
    payload: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Library(Protocol):
    """A library on another server. May be used from several threads."""

    @property
    def name(self) -> str:
        """What its folder here is called."""

    def ids(self) -> Sequence[str]:
        """The ids of all items, each of which can be the name of a folder."""

    def read(self, id: str) -> LibraryItem:  # noqa: A002 (what it is called everywhere)
        """One item."""

    def fetch(self, file: LibraryFile, path: Path) -> None:
        """Write the bytes of a file, there whole or not at all."""
