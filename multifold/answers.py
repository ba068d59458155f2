"""What the service answers, as frozen dataclasses; fields that a newer service adds are passed over."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from multifold.types import Kind, Side, Vectors

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
    confidence: float | None = None
    words: tuple[str, ...] = ()  # of the query, that stand in its name, captions or payload
    duplicates: tuple[Raw, ...] = ()  # `id` and `payload` of others that show the same, if they were folded
    chance: float | None = None  # how rarely strangers score so high, where no confidence is known
    sides: Mapping[Side, float] | None = None  # with `explain`: the index score of each of its sides


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
    calibrated_by: str | None = None  # bundle, collection, chance


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


@dataclass(frozen=True)
class Refused:
    """Why one of several things could not be done."""

    code: str
    message: str


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[Written | Refused, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


@dataclass(frozen=True)
class Facet:
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


@dataclass(frozen=True)
class Range:
    """The least and the greatest number of a key of the payload, and how many items have one."""

    min: float
    max: float
    count: int


@dataclass(frozen=True)
class Model:
    """A bundle that is loaded."""

    id: str
    dimensions: int


def search_result(raw: Raw) -> SearchResult:
    """The answer to a search."""
    took = {name: float(raw["took_ms"][name]) for name in ("encode", "search", "total")}
    return SearchResult(
        hits=_each(_found, raw["hits"]),
        took_ms=Took(**took),
        version=raw["version"],
        bundle=raw["bundle"],
        warnings=tuple(raw.get("warnings", ())),
        calibrated_by=raw.get("calibrated_by"),
    )


def written(raw: Raw) -> Written:
    """The answer to an upsert."""
    return Written(raw["id"], raw["version"], dict(raw["observations"]), tuple(raw.get("warnings", ())))


def stored(raw: Raw) -> Stored:
    """An item that was asked for."""
    return Stored(raw["id"], dict(raw["payload"]), _each(_seen, raw["observations"]))


def search_results(raw: Raw) -> tuple[SearchResult | Refused, ...]:
    """The answers to several searches."""
    return tuple(
        search_result(entry["answer"]) if entry["answer"] is not None else _refused(entry["error"])
        for entry in raw["answers"]
    )


def bulk_result(raw: Raw) -> BulkResult:
    """What became of several items."""
    results = tuple(
        written(entry["written"]) if entry["written"] is not None else _refused(entry["error"])
        for entry in raw["results"]
    )
    ids = tuple(entry["id"] for entry in raw["results"])
    return BulkResult(results, ids, raw["written"], raw["refused"], raw["version"])


def page(raw: Raw) -> tuple[tuple[Stored, ...], str | None]:
    """A page of items, and where the next one begins."""
    return _each(stored, raw["items"]), raw["next"]


def facets(raw: Raw) -> dict[str, tuple[Facet, ...]]:
    """Counts of values."""
    return {
        key: tuple(Facet(one["value"], one["count"]) for one in found) for key, found in raw["facets"].items()
    }


def ranges(raw: Raw) -> dict[str, Range]:
    """From where to where numbers go."""
    return {key: Range(one["min"], one["max"], one["count"]) for key, one in raw["ranges"].items()}


def removed(raw: Raw) -> int:
    """How many items there were."""
    return int(raw["removed"])


def vectors(raw: Raw) -> Vectors:
    """Embeddings that came as base64."""
    rows = [np.frombuffer(base64.b64decode(one["embedding"]), np.dtype("<f4")) for one in raw["data"]]
    return np.stack(rows).astype(np.float32)


def models(raw: Raw) -> tuple[Model, ...]:
    """Bundles that are loaded."""
    return tuple(Model(one["id"], one["dimensions"]) for one in raw["data"])


def _refused(raw: Raw) -> Refused:
    return Refused(raw["code"], raw["message"])


def _found(raw: Raw) -> Found:
    score, matched = float(raw["score"]), _seen(raw["matched"])
    return Found(
        raw["id"],
        score,
        raw["modality"],
        matched,
        dict(raw["payload"]),
        raw.get("confidence"),
        tuple(raw.get("words", ())),
        tuple(raw.get("duplicates", ())),
        raw.get("chance"),
        raw.get("sides"),
    )


def _seen(raw: Raw) -> Seen:
    return Seen(raw["kind"], raw["index"], raw.get("url"), raw.get("text"))


def _each(make: Callable[[Raw], T], raws: list[Raw]) -> tuple[T, ...]:
    return tuple(make(raw) for raw in raws)
