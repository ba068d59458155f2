"""What the service answers about walks to the root and about why something matched, as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multifold.answers import Raw, Seen
from multifold.types import Side


@dataclass(frozen=True)
class Met:
    """A caption met on the way: position 0 is the start, 1 the root; the bundle's own are no item's."""

    text: str
    position: float
    score: float
    id: str | None


@dataclass(frozen=True)
class Path:
    """What is met, in order; `k` is the width of the cones, None without."""

    k: float | None
    met: tuple[Met, ...]


@dataclass(frozen=True)
class Walk:
    """Paths from the special to the general, the first without cones."""

    root: str
    cones: bool
    paths: tuple[Path, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class HeatMap:
    """The share of each place of a picture, row by row; `cut`: of its middle square only."""

    method: str
    grid: tuple[tuple[float, ...], ...]
    cut: bool


@dataclass(frozen=True)
class Words:
    """The share of each word of a text."""

    method: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Why:
    """What in a picture or in a text made the match; None where there is no such thing."""

    heat_map: HeatMap | None
    words: Words | None


@dataclass(frozen=True)
class Explanation:
    """All scores of an item, best first; and what in one observation, and in the query, made its score.

    `tokens`: the share of each pair of tokens, for encoders that compare several.
    """

    item: str
    sides: Mapping[Side, float]
    observations: tuple[tuple[Seen, float], ...]
    observation: Seen
    score: float
    tokens: tuple[float, ...]
    why: Why
    query: Why
    warnings: tuple[str, ...]


def walk(raw: Raw) -> Walk:
    """The answer to a walk."""
    paths = tuple(
        Path(
            path["k"],
            tuple(Met(one["text"], one["position"], one["score"], one["id"]) for one in path["met"]),
        )
        for path in raw["paths"]
    )
    return Walk(raw["root"], raw["cones"], paths, tuple(raw.get("warnings", ())))


def explanation(raw: Raw) -> Explanation:
    """The answer to why an item matched."""
    explained = raw["explained"]
    return Explanation(
        item=raw["item"],
        sides=dict(raw["sides"]),
        observations=tuple((_seen(one), float(one["score"])) for one in raw["observations"]),
        observation=_seen(explained["observation"]),
        score=float(explained["observation"]["score"]),
        tokens=tuple(explained["tokens"]),
        why=_why(explained),
        query=_why(raw["query"]),
        warnings=tuple(raw.get("warnings", ())),
    )


def _seen(raw: Raw) -> Seen:
    return Seen(raw["kind"], raw["index"], raw.get("url"), raw.get("text"))


def _why(raw: Raw) -> Why:
    heat, words = raw["heat_map"], raw["words"]
    return Why(None if heat is None else _heat_map(heat), None if words is None else _words(words))


def _heat_map(raw: Mapping[str, Any]) -> HeatMap:
    return HeatMap(raw["method"], tuple(tuple(row) for row in raw["grid"]), raw["cut"])


def _words(raw: Mapping[str, Any]) -> Words:
    return Words(raw["method"], tuple((one["text"], one["share"]) for one in raw["words"]))
