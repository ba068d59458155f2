"""Hits of several sides as one answer: `target: any`. Pure.

Scores of two sides do not compare: captions lie closer to a text than pictures do. Confidence does: an item
stands where its most confident side puts it. If a side has none, ranks are fused: an item counts
1 / (60 + rank) for each side that found it. Either way a hit is that of one side, with that side's own score.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from multifold.types import Side

LEVEL = 60  # how little the first ranks stand out, as is usual


@runtime_checkable
class Ranked(Protocol):
    """What stands in a ranking: a place, or all of a hit."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def id(self) -> Hashable:
        """Whose it is."""

    @property
    def confidence(self) -> float | None:
        """How sure that is, if anybody knows."""

    @property
    def words(self) -> tuple[str, ...]:
        """What of the query names it."""


R = TypeVar("R", bound=Ranked)


@dataclass(frozen=True)
class Place:
    """An item in a ranking, before anything of it is read: its edition, and the side that scored."""

    id: int
    side: Side
    score: float
    confidence: float | None = None
    words: tuple[str, ...] = ()  # of the query, that name it


def merged(by_side: Mapping[Side, Sequence[R]]) -> list[R]:
    """Each item once, best first; ties go to the side that comes first."""
    told = [(hit.confidence, hit) for hits in by_side.values() for hit in hits]
    sure = [(confidence, hit) for confidence, hit in told if confidence is not None]
    if len(sure) < len(told):
        return _by_rank(by_side)
    best: dict[Hashable, R] = {}
    for _, hit in sorted(sure, key=lambda pair: -pair[0]):
        best.setdefault(hit.id, hit)
    return list(best.values())


def _by_rank(by_side: Mapping[Side, Sequence[R]]) -> list[R]:
    best: dict[Hashable, tuple[int, R]] = {}
    weight: dict[Hashable, float] = {}
    for hits in by_side.values():
        for rank, hit in enumerate(hits, 1):
            weight[hit.id] = weight.get(hit.id, 0.0) + 1 / (LEVEL + rank)
            if hit.id not in best or rank < best[hit.id][0]:
                best[hit.id] = rank, hit
    return [best[name][1] for name in sorted(best, key=lambda name: -weight[name])]
