"""What collections may be called, and what a name or an alias stands for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from multifold.errors import MultifoldError

MAIN = "main"  # the collection of the data folder itself, which is always there
DEFAULT = "default"  # the alias that is meant where nobody names a collection; main's, until it is set
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class CollectionNameError(MultifoldError):
    """A name that no collection can have."""


class NoSuchCollectionError(MultifoldError):
    """There is no collection and no alias of that name."""


class NameTakenError(MultifoldError):
    """The name, or the collection, is in use."""


@dataclass(frozen=True)
class CollectionEntry:
    """A collection beside the main one. Its place is never used twice, so nobody takes it for another."""

    name: str
    place: str  # of its folder, and of its schema
    vector_id: str


@dataclass(frozen=True)
class CollectionLocation:
    """Where a collection lies: its folder, and the addresses of items and pictures that are not there."""

    folder: Path
    database: str | None = None
    bucket: str | None = None


@dataclass(frozen=True)
class CollectionListing:
    """All names at one moment."""

    entries: Mapping[str, CollectionEntry]
    aliases: Mapping[str, str]  # to the name of a collection

    def resolve(self, name: str) -> str:
        """The collection that a name or an alias stands for."""
        found = self.aliases.get(name, MAIN if name == DEFAULT else name)
        if found != MAIN and found not in self.entries:
            raise NoSuchCollectionError(f"there is no collection {name!r}")
        return found

    def aliases_of(self, name: str) -> list[str]:
        """What else a collection is called."""
        implied = [DEFAULT] if name == MAIN and DEFAULT not in self.aliases else []
        return implied + sorted(alias for alias, meant in self.aliases.items() if meant == name)


def check_name(name: str) -> None:
    """Refuse what cannot be a name."""
    if not NAME_PATTERN.fullmatch(name):
        raise CollectionNameError(
            f"{name[:80]!r} is no name of a collection: up to 40 lower-case letters, digits, - and _, "
            "of which the first is a letter or digit"
        )


def new_place(name: str) -> str:
    """A place for a new collection."""
    return f"c_{name.replace('-', '_')}_{token_hex(4)}"
