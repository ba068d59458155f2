"""Answers of traversals to the root and of explanations of a match."""

from typing import Literal

from multifold.types import ExplanationMethod, Side
from multifold.wire.answer import Answer, described
from multifold.wire.items import ObservationInfo


class TraversalCaption(Answer):
    """A caption met on the way: position 0 is the start, 1 the root."""

    text: str
    position: float
    score: float
    id: str | None = described("the item that it is a caption of; null if it is the bundle's")


class TraversalPath(Answer):
    """What is met; `k` is the width of the cones that had to hold the steps, null without cones."""

    k: float | None
    met: tuple[TraversalCaption, ...]


class TraverseAnswer(Answer):
    """Paths from the special to the general, the first without cones, then one for each width."""

    root: Literal["origin", "mean"] = described("where the paths end")
    cones: bool = described("whether this encoder knows which caption holds what")
    steps: int
    paths: tuple[TraversalPath, ...]
    bundle: str
    warnings: tuple[str, ...] = ()


class ScoredObservation(ObservationInfo, kw_only=True):
    """An observation and its index score with the query."""

    score: float


class PictureShares(Answer):
    """The share of each place of a picture, from the top left; as the encoder sees it."""

    method: ExplanationMethod
    grid: tuple[tuple[float, ...], ...]
    cut: bool = described("whether the encoder sees only the middle square of the picture")


class WordShare(Answer):
    """A word and its share."""

    text: str
    share: float


class TextShares(Answer):
    """The share of each word of a text."""

    method: ExplanationMethod
    words: tuple[WordShare, ...]


class RegionShare(Answer):
    """A part of a surface, around a place in the unit ball of the upright mesh, and its share."""

    middle: tuple[float, float, float]
    share: float


class MeshShares(Answer):
    """The share of each part of a surface, the highest first, and a heat map for each view of the mesh."""

    method: ExplanationMethod
    regions: tuple[RegionShare, ...]
    views: tuple[PictureShares, ...] = described("in the order of the item's views")


class MatchExplanation(Answer):
    """What in a picture, a text or a surface made the match; null where there is no such thing."""

    heat_map: PictureShares | None = None
    words: TextShares | None = None
    surface: MeshShares | None = None


class ObservationExplanation(MatchExplanation, kw_only=True):
    """The observation that is explained."""

    observation: ScoredObservation
    tokens: tuple[float, ...] = described("each pair's share of the score, if several are compared")


class ExplainAnswer(Answer):
    """Every score of an item with a query, and what in one observation and in the query made it."""

    item: str
    sides: dict[Side, float] = described("index score of each side, the mean of its observations")
    observations: tuple[ScoredObservation, ...] = described("best first")
    explained: ObservationExplanation
    query: MatchExplanation
    bundle: str
    warnings: tuple[str, ...] = ()
