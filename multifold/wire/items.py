"""Items in answers: what is stored, and what became of writing and removing."""

from dataclasses import dataclass, field
from typing import Any

from multifold.types import Kind


@dataclass(frozen=True)
class Refusal:
    """Why one of several things could not be done: a code for programs, a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True)
class ObservationInfo:
    """One observation of an item: a caption with its text, or a photo or view with its address."""

    kind: Kind
    index: int
    url: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class ItemFile:
    """An original that was kept."""

    index: int
    url: str
    format: str


@dataclass(frozen=True, kw_only=True)
class StoredItem:
    """An item with its payload and all its observations."""

    id: str
    payload: dict[str, Any]
    observations: tuple[ObservationInfo, ...]
    files: tuple[ItemFile, ...] = field(
        metadata={"description": "the meshes that its views are of, as they came"}
    )


@dataclass(frozen=True)
class ItemPage:
    """Items, and where the next page begins; null after the last."""

    items: tuple[StoredItem, ...]
    next: str | None


@dataclass(frozen=True)
class ItemWriteAnswer:
    """An item as it was stored: the collection's new version, and how many observations of each kind."""

    id: str
    version: int
    observations: dict[Kind, int]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class BulkItemOutcome:
    """What became of one item: written, or refused with the reason."""

    id: str | None
    written: ItemWriteAnswer | None = None
    error: Refusal | None = None


@dataclass(frozen=True)
class BulkAnswer:
    """What became of each item, in their order."""

    results: tuple[BulkItemOutcome, ...]
    written: int
    refused: int
    version: int


@dataclass(frozen=True)
class ItemCount:
    """How many items there are."""

    count: int


@dataclass(frozen=True)
class RemovalAnswer:
    """How many items or verdicts a deletion removed."""

    removed: int
