"""Counts of payload values."""

from typing import Any

from app.schemas.search import SearchBody
from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field


MAX_BEST = 2_000


class FacetsBody(BaseModel):
    """Which values to count."""

    model_config = ConfigDict(extra="forbid")

    keys: list[str] = Field(min_length=1, max_length=64, description="keys of the payload; dots lead inwards")
    filter: dict[str, Any] | None = Field(None, description="only items that it lets through")
    query: SearchBody | None = Field(
        None, description="only what this search finds; its own limit and offset are not looked at"
    )
    best: int = Field(1_000, ge=1, le=MAX_BEST, description="with a query: so many of its best hits count")
    limit: int = Field(20, ge=1, le=1000, description="most values of one key")


class FacetShown(BaseModel):
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


class RangeShown(BaseModel):
    """The least and the greatest number of a key, and how many items have one."""

    min: float
    max: float
    count: int


class FacetsAnswer(BaseModel):
    """The commonest values of each key, most first, and the range of each key that has numbers."""

    facets: dict[str, list[FacetShown]]
    ranges: dict[str, RangeShown]
