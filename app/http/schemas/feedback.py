"""Verdicts on hits."""

from app.http.schemas.search import SearchBody
from index.store.feedback import QueryMeans, Verdict
from index.store.schema import LONGEST_WHO
from multifold.errors import needs_extra
from multifold.types import Kind, Side, Target

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field


class ObservationReference(BaseModel):
    """An observation of an item."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    index: int = Field(ge=0)


class FeedbackBody(BaseModel):
    """A verdict on a hit: whether the item is what the query meant."""

    model_config = ConfigDict(extra="forbid")

    query: SearchBody = Field(description="what was searched, as /v1/search takes it")
    item: str = Field(description="the item that is judged")
    observation: ObservationReference | None = Field(None, description="the observation that was shown")
    verdict: Verdict
    by: str | None = Field(
        None, min_length=1, max_length=LONGEST_WHO, description="who says so, in any name of your own"
    )


class FeedbackPartResource(BaseModel):
    """One part of what was asked with; without content where that is not kept."""

    means: QueryMeans
    weight: float
    text: str | None = None
    id: str | None = None
    side: Side | None = None
    url: str | None = Field(None, description="of its picture or mesh")


class FeedbackResource(BaseModel):
    """A verdict as it is kept."""

    id: str
    item: str
    observation: ObservationReference | None
    verdict: Verdict
    by: str | None
    given: str = Field(description="when, in UTC")
    target: Target
    query: list[FeedbackPartResource]


class FeedbackPage(BaseModel):
    """Verdicts, and where the next page begins; null after the last."""

    feedback: list[FeedbackResource]
    next: str | None


class FeedbackRemoval(BaseModel):
    """How many verdicts a deletion removed."""

    removed: int
