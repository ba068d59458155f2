"""The libraries that an ingest can read, by the word before the colon: `manyfold:https://models.example`."""

from collections.abc import Callable, Mapping

from app.libraries.contracts import Library, LibraryLimits
from app.libraries.manyfold import ManyfoldLibrary

LIBRARIES: Mapping[str, Callable[[str, LibraryLimits], Library]] = {"manyfold": ManyfoldLibrary}


def open_library(source: str, limits: LibraryLimits) -> Library | None:
    """The library that a source of an ingest names; None: it is a path."""
    kind, colon, address = source.partition(":")
    return LIBRARIES[kind](address, limits) if colon and kind in LIBRARIES else None
