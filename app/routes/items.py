"""/v1/items/{id}: write, read and remove items, and look at their pictures."""

from typing import Annotated, Any, Literal

from app import shown
from app.errors import ApiError
from app.ingest import Draft
from app.offload import Desk, desk
from app.parsing import Parts, parts_from_form
from app.routes.refusals import refusals
from app.schemas import ItemShown, ItemsRemoved, ItemWritten
from app.uploads import PICTURE_TYPES, media_type
from multifold.errors import needs_extra
from multifold.types import Item, Kind

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response

router = APIRouter(prefix="/items", tags=["items"])
At = Annotated[Desk, Depends(desk)]
KINDS: dict[str, Kind] = {"views": "view", "photos": "photo"}
FOREVER, ASK_AGAIN = "private, max-age=31536000, immutable", "private, no-cache"
FILE = {"type": "string", "format": "binary"}
BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "description": "captions"},
        "images": {"type": "array", "items": FILE, "description": "photos"},
        "mesh": {**FILE, "description": "a 3D shape; its views are rendered here"},
        "mesh_format": {"type": "string", "description": "where the file name does not tell, such as glb"},
        "payload": {"type": "string", "description": "your own JSON object, kept with the item"},
    },
}
PUT = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": BODY}}}}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {"schema": FILE}}, "description": "the picture"}
}


@router.get(
    "/{item_id:path}/{place}/{index}",
    responses={**PICTURE, **refusals(404, 422)},
    response_class=Response,
)
async def picture(
    request: Request, at: At, item_id: str, place: Literal["views", "photos"], index: int, v: str = ""
) -> Response:
    """A view or photo of an item. With `v`, as search gives it, browsers may keep it for good."""
    item = await _item(at, item_id)
    key = next((o.blob for o in item.observations if (o.kind, o.index) == (KINDS[place], index)), None)
    if key is None:
        raise ApiError(404, "not_found", f"the item {item_id!r} has no {KINDS[place]} {index}")
    headers = {"etag": f'"{key}"', "cache-control": FOREVER if v and key.startswith(v) else ASK_AGAIN}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    data = await at.run(lambda: at.service.collection.blobs.get(key))
    return Response(data, media_type=PICTURE_TYPES[key[64:]], headers=headers)


@router.put("/{item_id:path}", responses=refusals(413, 415, 422), openapi_extra=PUT)
async def put(request: Request, at: At, item_id: str) -> ItemWritten:
    """Write an item in place of its former self; its mesh is rendered, everything is encoded."""
    settings = at.service.settings
    if media_type(request.headers) != "multipart/form-data":
        raise ApiError(415, "unsupported_media_type", "send the item as multipart/form-data")
    if item_id in (".", ".."):
        raise ApiError(422, "bad_id", f"an address cannot hold the id {item_id!r}; choose another")
    async with request.form(max_files=settings.max_files) as form:
        parts = await parts_from_form(form, settings.max_text)
    stored = await at.run(lambda: at.service.put(_draft(at, item_id, parts)), slow=parts.mesh is not None)
    return shown.written(stored)


@router.get("/{item_id:path}", responses=refusals(404, 422))
async def get(at: At, item_id: str) -> ItemShown:
    """An item with its payload and everything that was seen and said of it."""
    return shown.item(await _item(at, item_id))


@router.delete("/{item_id:path}", responses=refusals(422))
async def delete(at: At, item_id: str) -> ItemsRemoved:
    """Remove an item. Removing one that is not there removes 0."""
    return ItemsRemoved(removed=await at.run(lambda: at.service.delete([item_id])))


async def _item(at: Desk, item_id: str) -> Item:
    item = await at.run(lambda: at.service.collection.get(item_id))
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {item_id!r}")
    return item


def _draft(at: Desk, item_id: str, parts: Parts) -> Draft:
    views = at.service.observer.draw(parts.mesh) if parts.mesh is not None else None
    return Draft(item_id, parts.texts, parts.photos, views, parts.payload)
