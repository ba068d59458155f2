"""Collections, aliases, bundles and snapshots."""

from typing import Annotated

from index.contracts import AUTO, Device, IndexPlan
from multifold.errors import needs_extra
from multifold.types import Kind

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


class BundleResource(BaseModel):
    """A bundle at hand."""

    folder: str
    name: str | None
    about: str | None
    vector_id: str | None
    bundle_id: str | None
    collections: list[str] = Field(description="those that it serves now")
    trouble: str | None = Field(description="why it cannot be used")


class BundlesAnswer(BaseModel):
    """The bundles at hand, the service's own first."""

    bundles: list[BundleResource]


class BundleReload(BaseModel):
    """A bundle at work, read anew."""

    name: str
    vector_id: str
    bundle_id: str
    former: str = Field(description="its bundle_id before; the same where nothing changed")


class BundleReloadAnswer(BaseModel):
    """The bundles at work."""

    bundles: list[BundleReload]


class AliasBody(BaseModel):
    """What an alias stands for."""

    model_config = ConfigDict(extra="forbid")

    collection: str


class CollectionResource(BaseModel):
    """One collection."""

    name: str
    aliases: list[str]
    vector_id: str
    bundle: str | None = Field(description="null where no bundle here makes its vectors")
    items: int | None
    observations: dict[Kind, int] | None
    version: int | None
    index: IndexBody | None
    trouble: str | None = Field(description="why it is not served")


class CollectionsAnswer(BaseModel):
    """All collections, the main one first."""

    collections: list[CollectionResource]


class AliasesAnswer(BaseModel):
    """The collection of each alias."""

    aliases: dict[str, str]


class AliasAnswer(BaseModel):
    """What an alias stands for now, and stood for before."""

    alias: str
    collection: str
    former: str | None


class CollectionRemoval(BaseModel):
    """What was removed."""

    removed: str


class SnapshotResource(BaseModel):
    """One file that holds the whole collection as it was."""

    name: str
    bytes: int


class SnapshotAnswer(SnapshotResource):
    """A snapshot that was just taken."""

    version: int
    items: int
    absent: list[str]


class SnapshotsAnswer(BaseModel):
    """The snapshots that are here, oldest first."""

    snapshots: list[SnapshotResource]
