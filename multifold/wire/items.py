"""Items in answers: what is stored, and what became of writing and removing."""

from typing import Any

from multifold.types import Kind
from multifold.wire.answer import Answer, described


class Refusal(Answer):
    """Why one of several things could not be done: a code for programs, a sentence for people."""

    code: str
    message: str


class ObservationInfo(Answer):
    """One observation of an item: a caption with its text, or a photo or view with its address."""

    kind: Kind
    index: int
    url: str | None = None
    text: str | None = None


class ItemFile(Answer):
    """An original that was kept."""

    index: int
    url: str
    format: str


class StoredItem(Answer, kw_only=True):
    """An item with its payload and all its observations."""

    id: str
    payload: dict[str, Any]
    observations: tuple[ObservationInfo, ...]
    files: tuple[ItemFile, ...] = described("the meshes that its views are of, as they came")
    notes: tuple[str, ...] = described("what was lost when its mesh was drawn, such as a texture", default=())


class ItemPage(Answer):
    """Items, and where the next page begins; null after the last."""

    items: tuple[StoredItem, ...]
    next: str | None


class ItemWriteAnswer(Answer):
    """An item as it was stored: the collection's new version, and how many observations of each kind."""

    id: str
    version: int
    observations: dict[Kind, int]
    warnings: tuple[str, ...] = ()


class BulkItemOutcome(Answer):
    """What became of one item: written, or refused with the reason."""

    id: str | None
    written: ItemWriteAnswer | None = None
    error: Refusal | None = None


class BulkAnswer(Answer):
    """What became of each item, in their order."""

    results: tuple[BulkItemOutcome, ...]
    written: int
    refused: int
    version: int


class ItemCount(Answer):
    """How many items there are."""

    count: int


class RemovalAnswer(Answer):
    """How many items or verdicts a deletion removed."""

    removed: int
