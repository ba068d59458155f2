"""Bodies of requests about collections and aliases."""

from typing import Annotated

from pydantic import Field

from app.http.schemas.request import RequestBody, example, optional
from index.contracts import AUTO, Device, IndexPlan, Memory, Stored


class IndexBody(RequestBody):
    """The index that a collection asks for."""

    model_config = example(type="auto", recall=0.95)

    type: str = Field(
        AUTO,
        max_length=64,
        description="auto, exact, milvus or milvus,TYPE, or a FAISS factory string, perhaps after firstN,",
    )
    device: Device = "auto"
    recall: Annotated[float, Field(gt=0, le=1, description="target, measured when the index is built")] = (
        IndexPlan().recall
    )
    memory: Memory = Field("auto", description="all of it (resident), or codes with vectors in files")
    stored: Stored = Field("float32", description="the numbers of vectors, as they are scored and in files")


class CollectionBody(RequestBody):
    """A collection to be made."""

    model_config = example(name="shoes")

    name: str = Field(description="lower-case letters, digits, - and _; at most 40")
    bundle: str | None = optional("a bundle at hand, by its name; else the service's own")
    index: IndexBody | None = optional("the index that it asks for; else it chooses itself")


class RebuildBody(RequestBody):
    """A collection to be made anew in another."""

    model_config = example(to="shoes-2", bundle="siglip2-b16-small", alias="default")

    to: str = Field(description="the other collection; it is made if it is not there")
    bundle: str | None = optional("the bundle of a new one, by name; else the service's own")
    index: IndexBody | None = optional("the index that a new one asks for")
    alias: str | None = optional("an alias that moves there in the end, such as default")
    partial: bool = Field(False, description="whether items that cannot be made anew may be missing")
    since: int | None = optional(
        "only what was written after this version: to take a move back, its job's `moved_at`", ge=0
    )


class AliasBody(RequestBody):
    """What an alias stands for."""

    model_config = example(collection="shoes-2")

    collection: str
