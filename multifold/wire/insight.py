"""Traversals to the root and explanations of a match: what is asked, and what is answered."""

from collections.abc import Sequence
from typing import Literal

from multifold.types import STEPS_TO_ROOT, ExplanationMethod, Kind, Side
from multifold.wire.items import ObservationInfo
from multifold.wire.messages import Answer, Body, Number, described
from multifold.wire.search import QueryInput

MAX_STEPS = 200
MAX_WIDTHS = 16


class TraverseOptions(Body):
    """How to walk to the root."""

    widths: Sequence[Number] = described(
        "K: a path for each, on which only captions whose cone holds count", default=(), max_length=MAX_WIDTHS
    )
    captions: Literal["all", "collection", "bundle"] = described("whose captions may be met", default="all")
    steps: int = described("steps to the root, both ends counted", default=STEPS_TO_ROOT, ge=2, le=MAX_STEPS)


class TraverseBody(TraverseOptions, QueryInput, example={"text": "a red chair", "steps": 20}):
    """What to walk from: exactly one of text, image, mesh and id."""


class ExplainOptions(Body):
    """What to explain of a match, and how."""

    item: str = described("the item that was found")
    kind: Kind | None = described("of the observation to explain; else the best one", default=None)
    index: int | None = described("its place; needs the kind", default=None, ge=0)
    method: ExplanationMethod | None = described("else the best that the bundle knows", default=None)
    token: int | None = described(
        "maps of one pair of tokens alone, where an encoder compares several", default=None, ge=0
    )
    maps: bool = described("false: scores only", default=True)


class ExplainBody(QueryInput, ExplainOptions, example={"text": "a red chair", "item": "chair-1"}):
    """Why an item matches: the query, exactly one of text, image, mesh, id and vector, and the item."""


class TraversalCaption(Answer):
    """A caption met on the way: position 0 is the start, 1 the root."""

    text: str = described("its words")
    position: float = described("how far on the way it was met, from 0 to 1")
    score: float = described("its index score with that place of the way")
    id: str | None = described("the item that it is a caption of; null if it is the bundle's")


class TraversalPath(Answer):
    """What is met; `k` is the width of the cones that had to hold the steps, null without cones."""

    k: float | None = described("width of the cones that had to hold the steps; null without cones")
    met: tuple[TraversalCaption, ...] = described("captions, in the order of the way")


class TraverseAnswer(Answer):
    """Paths from the special to the general, the first without cones, then one for each width."""

    root: Literal["origin", "mean"] = described("where the paths end")
    cones: bool = described("whether this encoder knows which caption holds what")
    steps: int = described("places of the way that were looked at, both ends counted")
    paths: tuple[TraversalPath, ...] = described("the first without cones, then one for each width")
    bundle: str = described("name of the encoder")
    warnings: tuple[str, ...] = described(
        "what was not looked at, such as the end of a long text", default=()
    )


class ScoredObservation(ObservationInfo, kw_only=True):
    """An observation and its index score with the query."""

    score: float = described("higher is closer")


class PictureShares(Answer):
    """The share of each place of a picture, from the top left; as the encoder sees it."""

    method: ExplanationMethod = described("how it was worked out")
    grid: tuple[tuple[float, ...], ...] = described("rows from the top, of shares from the left")
    cut: bool = described("whether the encoder sees only the middle square of the picture")


class WordShare(Answer):
    """A word and its share."""

    text: str = described("the word")
    share: float = described("of the score")


class TextShares(Answer):
    """The share of each word of a text."""

    method: ExplanationMethod = described("how they were worked out")
    words: tuple[WordShare, ...] = described("in the order of the text")


class RegionShare(Answer):
    """A part of a surface, around a place in the unit ball of the upright mesh, and its share."""

    middle: tuple[float, float, float] = described("x, y and z, with y upwards")
    share: float = described("of the score")


class MeshShares(Answer):
    """The share of each part of a surface, the highest first, and a heat map for each view of the mesh."""

    method: ExplanationMethod = described("how they were worked out")
    regions: tuple[RegionShare, ...] = described("those of the surface that was read")
    views: tuple[PictureShares, ...] = described("in the order of the item's views")


class MatchExplanation(Answer):
    """What in a picture, a text or a surface made the match; null where there is no such thing."""

    heat_map: PictureShares | None = described("of a picture", default=None)
    words: TextShares | None = described("of a text", default=None)
    surface: MeshShares | None = described("of a mesh that the encoder reads as points", default=None)


class ObservationExplanation(MatchExplanation, kw_only=True):
    """The observation that is explained."""

    observation: ScoredObservation = described("which one it is, and its score")
    tokens: tuple[float, ...] = described("each pair's share of the score, if several are compared")


class ExplainAnswer(Answer):
    """Every score of an item with a query, and what in one observation and in the query made it."""

    item: str = described("its id")
    sides: dict[Side, float] = described("index score of each side, the mean of its observations")
    observations: tuple[ScoredObservation, ...] = described("best first")
    explained: ObservationExplanation = described("the observation that was asked for, or the best one")
    query: MatchExplanation = described("what in the query made the match")
    bundle: str = described("name of the encoder")
    warnings: tuple[str, ...] = described("what could not be explained, and why", default=())
