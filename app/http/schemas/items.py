"""Items, as they are written and shown."""

from typing import Any

from pydantic import Field

from app.http.schemas.request import MeshFormat, RequestBody, example, given, optional

MAX_PAGE = 1000


class ItemBody(RequestBody):
    """An item in JSON; files are data URIs."""

    id: str
    texts: list[str] = Field([], description="captions")
    images: list[str] = Field([], description="photos as data URIs, or addresses if the service may fetch")
    mesh: str | None = optional("a mesh as data URI or address; its views are rendered here")
    mesh_format: MeshFormat = None
    payload: dict[str, Any] = Field({}, description="your own JSON object, kept with the item")


class BulkBody(RequestBody):
    """Items to write, each on its own: one that is refused does not keep the others out."""

    model_config = example(
        items=[{"id": "chair-1", "texts": ["a red chair with four legs"], "payload": {"colour": "red"}}]
    )

    items: list[dict[str, Any]] = Field(min_length=1)


class ItemPatchBody(RequestBody):
    """What to change of an item; the rest of it stays."""

    model_config = given("payload", "texts", exactly_one=False, like={"payload": {"price": 49}})

    payload: dict[str, Any] | None = optional("a JSON merge patch: null takes a key away (RFC 7396)")
    texts: list[str] | None = optional("captions in place of the former ones")


class ItemFilterBody(RequestBody):
    """Which items."""

    model_config = example(filter={"colour": "red"})

    filter: dict[str, Any] | None = optional('what the payload must be: {"colour": "red"}')


class ItemDeleteBody(ItemFilterBody):
    """Which items to remove: by ids or by a filter."""

    model_config = given("ids", "filter", like={"ids": ["chair-1"]})

    ids: list[str] | None = None


class ItemScrollBody(ItemFilterBody):
    """A page of items, in the order of their ids unless another one is asked for."""

    model_config = example(filter={"colour": "red"}, sort="-payload.price", limit=50)

    sort: str = Field(
        "id",
        description="'id', 'newest', or by a number of the payload: 'payload.price', the least first, and "
        "'-payload.price', the greatest first; by a number only items that have it are listed",
    )
    after: str | None = optional("the `next` of the page before")
    limit: int = Field(100, ge=1, le=MAX_PAGE)
