"""Answers of traversals to the root and of explanations of a match."""

from dataclasses import dataclass, field
from typing import Literal

from multifold.types import ExplanationMethod, Side
from multifold.wire.items import ObservationInfo


@dataclass(frozen=True)
class TraversalCaption:
    """A caption met on the way: position 0 is the start, 1 the root."""

    text: str
    position: float
    score: float
    id: str | None = field(
        metadata={"description": "the item that it is a caption of; null if it is the bundle's"}
    )


@dataclass(frozen=True)
class TraversalPath:
    """What is met; `k` is the width of the cones that had to hold the steps, null without cones."""

    k: float | None
    met: tuple[TraversalCaption, ...]


@dataclass(frozen=True)
class TraverseAnswer:
    """Paths from the special to the general, the first without cones, then one for each width."""

    root: Literal["origin", "mean"] = field(metadata={"description": "where the paths end"})
    cones: bool = field(metadata={"description": "whether this encoder knows which caption holds what"})
    steps: int
    paths: tuple[TraversalPath, ...]
    bundle: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScoredObservation(ObservationInfo):
    """An observation and its index score with the query."""

    score: float


@dataclass(frozen=True)
class PictureShares:
    """The share of each place of a picture, from the top left; as the encoder sees it."""

    method: ExplanationMethod
    grid: tuple[tuple[float, ...], ...]
    cut: bool = field(
        metadata={"description": "whether the encoder sees only the middle square of the picture"}
    )


@dataclass(frozen=True)
class WordShare:
    """A word and its share."""

    text: str
    share: float


@dataclass(frozen=True)
class TextShares:
    """The share of each word of a text."""

    method: ExplanationMethod
    words: tuple[WordShare, ...]


@dataclass(frozen=True)
class MatchExplanation:
    """What in a picture or in a text made the match; null where there is no such thing."""

    heat_map: PictureShares | None = None
    words: TextShares | None = None


@dataclass(frozen=True, kw_only=True)
class ObservationExplanation(MatchExplanation):
    """The observation that is explained."""

    observation: ScoredObservation
    tokens: tuple[float, ...] = field(
        metadata={
            "description": "the share of each pair of tokens in the score; empty where only one is compared"
        }
    )


@dataclass(frozen=True)
class ExplainAnswer:
    """Every score of an item with a query, and what in one observation and in the query made it."""

    item: str
    sides: dict[Side, float] = field(
        metadata={"description": "index score of each side, the mean of its observations"}
    )
    observations: tuple[ScoredObservation, ...] = field(metadata={"description": "best first"})
    explained: ObservationExplanation
    query: MatchExplanation
    bundle: str
    warnings: tuple[str, ...] = ()
