"""Answers of the service as frozen dataclasses; unknown fields of a newer service are ignored."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from multifold.types import Kind, Side, Vectors

Raw = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class ObservationInfo:
    """One observation of an item: a caption with its text, or a picture with its address."""

    kind: Kind
    index: int
    url: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class SearchHit:
    """An item found, and the observation of it that matched best."""

    id: str
    score: float
    modality: Side
    matched: ObservationInfo
    payload: Raw
    confidence: float | None = None
    words: tuple[str, ...] = ()  # of the query, that stand in its name, captions or payload
    duplicates: tuple[Raw, ...] = ()  # `id` and `payload` of others that show the same, if they were folded
    chance: float | None = None  # how rarely strangers score so high, where no confidence is known
    sides: Mapping[Side, float] | None = None  # with `explain`: the index score of each of its sides


@dataclass(frozen=True)
class SearchTimings:
    """Milliseconds that the service spent."""

    encode: float
    search: float
    total: float


@dataclass(frozen=True)
class SearchResult:
    """Items, best first, and what the service has to say about the question."""

    hits: tuple[SearchHit, ...]
    took_ms: SearchTimings
    version: int
    bundle: str
    warnings: tuple[str, ...]
    calibrated_by: str | None = None  # bundle, collection, chance


@dataclass(frozen=True)
class WriteResult:
    """An item as it was stored: the collection's new version, and how many observations of each kind."""

    id: str
    version: int
    observations: Mapping[Kind, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class StoredItem:
    """An item with all that was seen and said of it."""

    id: str
    payload: Raw
    observations: tuple[ObservationInfo, ...]


@dataclass(frozen=True)
class Refusal:
    """Why one of several things could not be done."""

    code: str
    message: str


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[WriteResult | Refusal, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


@dataclass(frozen=True)
class FacetCount:
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


@dataclass(frozen=True)
class NumberRange:
    """The least and the greatest number of a key of the payload, and how many items have one."""

    min: float
    max: float
    count: int


@dataclass(frozen=True)
class ServedModel:
    """A bundle that is loaded."""

    id: str
    dimensions: int


def parse_search_result(raw: Raw) -> SearchResult:
    """The answer to a search."""
    took = {name: float(raw["took_ms"][name]) for name in ("encode", "search", "total")}
    return SearchResult(
        hits=_parse_each(_parse_hit, raw["hits"]),
        took_ms=SearchTimings(**took),
        version=raw["version"],
        bundle=raw["bundle"],
        warnings=tuple(raw.get("warnings", ())),
        calibrated_by=raw.get("calibrated_by"),
    )


def written(raw: Raw) -> WriteResult:
    """The answer to an upsert."""
    return WriteResult(raw["id"], raw["version"], dict(raw["observations"]), tuple(raw.get("warnings", ())))


def parse_item(raw: Raw) -> StoredItem:
    """An item that was asked for."""
    return StoredItem(raw["id"], dict(raw["payload"]), _parse_each(_parse_observation, raw["observations"]))


def parse_search_results(raw: Raw) -> tuple[SearchResult | Refusal, ...]:
    """The answers to several searches."""
    return tuple(
        parse_search_result(entry["answer"])
        if entry["answer"] is not None
        else _parse_refusal(entry["error"])
        for entry in raw["answers"]
    )


def parse_bulk_result(raw: Raw) -> BulkResult:
    """What became of several items."""
    results = tuple(
        written(entry["written"]) if entry["written"] is not None else _parse_refusal(entry["error"])
        for entry in raw["results"]
    )
    ids = tuple(entry["id"] for entry in raw["results"])
    return BulkResult(results, ids, raw["written"], raw["refused"], raw["version"])


def parse_item_page(raw: Raw) -> tuple[tuple[StoredItem, ...], str | None]:
    """A page of items, and where the next one begins."""
    return _parse_each(parse_item, raw["items"]), raw["next"]


def parse_facets(raw: Raw) -> dict[str, tuple[FacetCount, ...]]:
    """Counts of values."""
    return {
        key: tuple(FacetCount(one["value"], one["count"]) for one in found)
        for key, found in raw["facets"].items()
    }


def parse_ranges(raw: Raw) -> dict[str, NumberRange]:
    """From where to where numbers go."""
    return {key: NumberRange(one["min"], one["max"], one["count"]) for key, one in raw["ranges"].items()}


def parse_removed(raw: Raw) -> int:
    """How many items there were."""
    return int(raw["removed"])


def parse_vectors(raw: Raw) -> Vectors:
    """Embeddings that came as base64."""
    rows = [np.frombuffer(base64.b64decode(one["embedding"]), np.dtype("<f4")) for one in raw["data"]]
    return np.stack(rows).astype(np.float32)


def parse_models(raw: Raw) -> tuple[ServedModel, ...]:
    """Bundles that are loaded."""
    return tuple(ServedModel(one["id"], one["dimensions"]) for one in raw["data"])


def _parse_refusal(raw: Raw) -> Refusal:
    return Refusal(raw["code"], raw["message"])


def _parse_hit(raw: Raw) -> SearchHit:
    score, matched = float(raw["score"]), _parse_observation(raw["matched"])
    return SearchHit(
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


def _parse_observation(raw: Raw) -> ObservationInfo:
    return ObservationInfo(raw["kind"], raw["index"], raw.get("url"), raw.get("text"))


def _parse_each(make: Callable[[Raw], T], raws: list[Raw]) -> tuple[T, ...]:
    return tuple(make(raw) for raw in raws)


@dataclass(frozen=True)
class TraversalCaption:
    """A caption met on the way: position 0 is the start, 1 the root; the bundle's own are no item's."""

    text: str
    position: float
    score: float
    id: str | None


@dataclass(frozen=True)
class TraversalPath:
    """What is met, in order; `k` is the width of the cones, None without."""

    k: float | None
    met: tuple[TraversalCaption, ...]


@dataclass(frozen=True)
class Traversal:
    """Paths from the special to the general, the first without cones."""

    root: str
    cones: bool
    paths: tuple[TraversalPath, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class PictureShares:
    """The share of each place of a picture, row by row; `cut`: of its middle square only."""

    method: str
    grid: tuple[tuple[float, ...], ...]
    cut: bool


@dataclass(frozen=True)
class TextShares:
    """The share of each word of a text."""

    method: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class MatchExplanation:
    """What in a picture or in a text made the match; None where there is no such thing."""

    heat_map: PictureShares | None
    words: TextShares | None


@dataclass(frozen=True)
class ItemExplanation:
    """All scores of an item, best first; and what in one observation, and in the query, made its score.

    `tokens`: the share of each pair of tokens, for encoders that compare several.
    """

    item: str
    sides: Mapping[Side, float]
    observations: tuple[tuple[ObservationInfo, float], ...]
    observation: ObservationInfo
    score: float
    tokens: tuple[float, ...]
    why: MatchExplanation
    query: MatchExplanation
    warnings: tuple[str, ...]


def parse_traversal(raw: Raw) -> Traversal:
    """The answer to a walk."""
    paths = tuple(
        TraversalPath(
            path["k"],
            tuple(
                TraversalCaption(one["text"], one["position"], one["score"], one["id"]) for one in path["met"]
            ),
        )
        for path in raw["paths"]
    )
    return Traversal(raw["root"], raw["cones"], paths, tuple(raw.get("warnings", ())))


def parse_explanation(raw: Raw) -> ItemExplanation:
    """The answer to why an item matched."""
    explained = raw["explained"]
    return ItemExplanation(
        item=raw["item"],
        sides=dict(raw["sides"]),
        observations=tuple(
            (_parse_scored_observation(one), float(one["score"])) for one in raw["observations"]
        ),
        observation=_parse_scored_observation(explained["observation"]),
        score=float(explained["observation"]["score"]),
        tokens=tuple(explained["tokens"]),
        why=_parse_match(explained),
        query=_parse_match(raw["query"]),
        warnings=tuple(raw.get("warnings", ())),
    )


def _parse_scored_observation(raw: Raw) -> ObservationInfo:
    return ObservationInfo(raw["kind"], raw["index"], raw.get("url"), raw.get("text"))


def _parse_match(raw: Raw) -> MatchExplanation:
    heat, words = raw["heat_map"], raw["words"]
    return MatchExplanation(
        None if heat is None else _parse_picture_shares(heat),
        None if words is None else _parse_text_shares(words),
    )


def _parse_picture_shares(raw: Mapping[str, Any]) -> PictureShares:
    return PictureShares(raw["method"], tuple(tuple(row) for row in raw["grid"]), raw["cut"])


def _parse_text_shares(raw: Mapping[str, Any]) -> TextShares:
    return TextShares(raw["method"], tuple((one["text"], one["share"]) for one in raw["words"]))
