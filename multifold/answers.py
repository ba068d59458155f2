"""What the service answers, as frozen dataclasses; fields that a newer service adds are passed over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from multifold.types import Kind, Side

Raw = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """One observation of an item: a caption with its text, or a picture with its address."""

    kind: Kind
    index: int
    url: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Found:
    """An item found, and the observation of it that matched best."""

    id: str
    score: float
    modality: Side
    matched: Seen
    payload: Raw


@dataclass(frozen=True)
class Took:
    """Milliseconds that the service spent."""

    encode: float
    search: float
    total: float


@dataclass(frozen=True)
class SearchResult:
    """Items, best first, and what the service has to say about the question."""

    hits: tuple[Found, ...]
    took_ms: Took
    version: int
    bundle: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    """An item as it was stored: the collection's new version, and how many observations of each kind."""

    id: str
    version: int
    observations: Mapping[Kind, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """An item with all that was seen and said of it."""

    id: str
    payload: Raw
    observations: tuple[Seen, ...]


def search_result(raw: Raw) -> SearchResult:
    """The answer to a search."""
    took = {name: float(raw["took_ms"][name]) for name in ("encode", "search", "total")}
    return SearchResult(
        hits=_each(_found, raw["hits"]),
        took_ms=Took(**took),
        version=raw["version"],
        bundle=raw["bundle"],
        warnings=tuple(raw.get("warnings", ())),
    )


def written(raw: Raw) -> Written:
    """The answer to an upsert."""
    return Written(raw["id"], raw["version"], dict(raw["observations"]), tuple(raw.get("warnings", ())))


def stored(raw: Raw) -> Stored:
    """An item that was asked for."""
    return Stored(raw["id"], dict(raw["payload"]), _each(_seen, raw["observations"]))


def _found(raw: Raw) -> Found:
    return Found(raw["id"], float(raw["score"]), raw["modality"], _seen(raw["matched"]), dict(raw["payload"]))


def _seen(raw: Raw) -> Seen:
    return Seen(raw["kind"], raw["index"], raw.get("url"), raw.get("text"))


def _each(make: Callable[[Raw], T], raws: list[Raw]) -> tuple[T, ...]:
    return tuple(make(raw) for raw in raws)
