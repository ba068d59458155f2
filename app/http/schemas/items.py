"""Items, as they are written and shown."""

from typing import Any

from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field

MAX_PAGE = 1000


class ItemBody(BaseModel):
    """An item in JSON; files are data URIs."""

    model_config = ConfigDict(extra="forbid")

    id: str
    texts: list[str] = Field([], description="captions")
    images: list[str] = Field([], description="photos as data URIs, or addresses if the service may fetch")
    mesh: str | None = Field(None, description="a mesh as data URI or address; its views are rendered here")
    mesh_format: str | None = Field(
        None, description="format of the mesh, such as glb, if nothing else tells"
    )
    payload: dict[str, Any] = Field({}, description="your own JSON object, kept with the item")


class BulkBody(BaseModel):
    """Items to write, each on its own: one that is refused does not keep the others out."""

    model_config = ConfigDict(extra="forbid")

    items: list[dict[str, Any]] = Field(min_length=1)


class ItemPatchBody(BaseModel):
    """What to change of an item; the rest of it stays."""

    model_config = ConfigDict(extra="forbid")

    payload: dict[str, Any] | None = Field(
        None, description="a JSON merge patch: null takes a key away (RFC 7396)"
    )
    texts: list[str] | None = Field(None, description="captions in place of the former ones")


class ItemFilterBody(BaseModel):
    """Which items."""

    model_config = ConfigDict(extra="forbid")

    filter: dict[str, Any] | None = Field(None, description='what the payload must be: {"colour": "red"}')


class ItemDeleteBody(ItemFilterBody):
    """Which items to remove: by ids or by a filter."""

    ids: list[str] | None = None


class ItemScrollBody(ItemFilterBody):
    """A page of items, in the order of their ids unless another one is asked for."""

    sort: str = Field(
        "id",
        description="'id', 'newest', or by a number of the payload: 'payload.price', the least first, and "
        "'-payload.price', the greatest first; by a number only items that have it are listed",
    )
    after: str | None = Field(None, description="the `next` of the page before")
    limit: int = Field(100, ge=1, le=MAX_PAGE)
