"""Traversals to the root, and explanations of a match."""

from typing import Literal

from app.http.schemas.items import ObservationResource
from app.http.schemas.search import QueryBody
from multifold.analysis.explanation import Method
from multifold.analysis.traversal import STEPS
from multifold.errors import needs_extra
from multifold.types import Kind, Side

with needs_extra("serve"):
    from pydantic import BaseModel, Field, FiniteFloat

MOST_STEPS = 200
MOST_WIDTHS = 16


class TraverseBody(QueryBody):
    """What to walk from: exactly one of text, image, mesh and id."""

    steps: int = Field(STEPS, ge=2, le=MOST_STEPS, description="steps to the root, both ends counted")
    widths: list[FiniteFloat] = Field(
        [],
        max_length=MOST_WIDTHS,
        description="K: a path for each, on which only captions whose cone holds count",
    )
    captions: Literal["all", "collection", "bundle"] = Field("all", description="whose captions may be met")


class PathCaptionResource(BaseModel):
    """A caption met on the way: 0 is the start, 1 the root."""

    text: str
    position: float
    score: float
    id: str | None = Field(description="the item that it is a caption of; null if it is the bundle's")


class PathResource(BaseModel):
    """What is met; `k` is the width of the cones that had to hold the steps, null without cones."""

    k: float | None
    met: list[PathCaptionResource]


class TraverseAnswer(BaseModel):
    """Paths from the special to the general, the first without cones, then one for each width."""

    root: Literal["origin", "mean"] = Field(description="where the paths end")
    cones: bool = Field(description="whether this encoder knows which caption holds what")
    steps: int
    paths: list[PathResource]
    bundle: str
    warnings: list[str] = []


class ExplainBody(QueryBody):
    """Why an item matches: the query, exactly one of text, image, mesh, id and vector, and the item."""

    item: str = Field(description="the item that was found")
    kind: Kind | None = Field(None, description="of the observation to explain; else the best one")
    index: int | None = Field(None, ge=0, description="its place; needs the kind")
    method: Method | None = Field(None, description="else the best that the bundle knows")
    token: int | None = Field(
        None, ge=0, description="maps of one pair of tokens alone, where an encoder compares several"
    )
    maps: bool = Field(True, description="false: scores only")


class ScoredObservation(ObservationResource):
    """An observation and its index score with the query."""

    score: float


class HeatMapResource(BaseModel):
    """The share of each place of a picture, from the top left; as the encoder sees it."""

    method: Method
    grid: list[list[float]]
    cut: bool = Field(description="whether the encoder sees only the middle square of the picture")


class WordShareResource(BaseModel):
    """A word and its share."""

    text: str
    share: float


class WordSharesResource(BaseModel):
    """The share of each word of a text."""

    method: Method
    words: list[WordShareResource]


class ExplanationResource(BaseModel):
    """What in a picture or in a text made the match; null where there is no such thing."""

    heat_map: HeatMapResource | None = None
    words: WordSharesResource | None = None


class ObservationExplanation(ExplanationResource):
    """The observation that is explained."""

    observation: ScoredObservation
    tokens: list[float] = Field(
        description="the share of each pair of tokens in the score; empty where only one is compared"
    )


class ExplainAnswer(BaseModel):
    """Every score of an item with a query, and what in one observation and in the query made it."""

    item: str
    sides: dict[Side, float] = Field(description="index score of each side, the mean of its observations")
    observations: list[ScoredObservation] = Field(description="best first")
    explained: ObservationExplanation
    query: ExplanationResource
    bundle: str
    warnings: list[str] = []
