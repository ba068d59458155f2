"""Bodies of requests about collections and aliases."""

from typing import Annotated

from index.contracts import AUTO, Device, IndexPlan
from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field


class IndexBody(BaseModel):
    """The index that a collection asks for."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(AUTO, max_length=64, description="auto, exact, or a FAISS factory string")
    device: Device = "auto"
    recall: Annotated[float, Field(gt=0, le=1, description="target, measured when the index is built")] = (
        IndexPlan().recall
    )


class CollectionBody(BaseModel):
    """A collection to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="lower-case letters, digits, - and _; at most 40")
    bundle: str | None = Field(None, description="a bundle at hand, by its name; else the service's own")
    index: IndexBody | None = Field(None, description="the index that it asks for; else it chooses itself")


class RebuildBody(BaseModel):
    """A collection to be made anew in another."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(description="the other collection; it is made if it is not there")
    bundle: str | None = Field(None, description="the bundle of a new one, by name; else the service's own")
    index: IndexBody | None = Field(None, description="the index that a new one asks for")
    alias: str | None = Field(None, description="an alias that moves there in the end, such as default")
    partial: bool = Field(False, description="whether items that cannot be made anew may be missing")
    since: int | None = Field(
        None,
        ge=0,
        description="only what was written after this version: to take a move back, its job's `moved_at`",
    )


class AliasBody(BaseModel):
    """What an alias stands for."""

    model_config = ConfigDict(extra="forbid")

    collection: str
