"""/v1/items/{id}: write, read, change and remove an item, look at its pictures, find what is like it."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute
from PIL import Image
from starlette.routing import Match
from starlette.types import Scope

from app.errors import ApiError
from app.http.conversion import (
    CollectionDep,
    check_item_id,
    check_text,
    choose_sides,
    media_type,
    parse_item_form,
    serialize_answer,
    serialize_item,
    serialize_written,
)
from app.http.openapi import BINARY_FILE, FILE, error_responses, file_route
from app.http.schemas.items import ItemPatchBody
from app.http.schemas.search import SimilarBody
from app.ingest.uploads import PICTURE_TYPES, ItemFiles
from app.runtime.runtime import CollectionRuntime, SearchPage
from app.search.query import ItemQueryPart
from index.store.blobs import BlobKey
from multifold.bundle.preprocess import encode_webp
from multifold.errors import MultifoldError
from multifold.types import Item, Kind
from multifold.wire.items import ItemWriteAnswer, RemovalAnswer, StoredItem
from multifold.wire.search import SearchAnswer
from renderers.sandbox import RenderLane


class ItemRoute(APIRoute):
    """A route of an item's part, such as a view, takes no id that ends so and came as one segment: `%2F`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        last_segment: bytes = scope.get("raw_path", b"").partition(b"?")[0].rpartition(b"/")[2]
        if b"%2f" in last_segment.lower() and not self.path.endswith("{item_id:path}"):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(prefix="/items", tags=["items"], route_class=ItemRoute)
FOREVER, ASK_AGAIN = "private, max-age=31536000, immutable", "private, no-cache"
PHOTOS = "photos, or addresses if it may fetch"
BODY: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "description": "captions"},
        "images": {"type": "array", "items": BINARY_FILE, "description": PHOTOS},
        "mesh": {**BINARY_FILE, "description": "a 3D shape; its views are rendered here"},
        "mesh_format": {"type": "string", "description": "where the file name does not tell, such as glb"},
        "payload": {"type": "string", "description": "your own JSON object, kept with the item"},
    },
    "examples": [{"texts": ["a red chair with four legs"], "payload": '{"colour": "red"}'}],
}
PUT_ERRORS = error_responses(400, 404, 413, 415, 422, 429, 503)
PUT = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": BODY}}}}
ViewSize = Annotated[int | None, Query(ge=64, le=1024, description="pixels a side; else as stored")]
PICTURE = file_route("image/*", "the picture")


@router.get("/{item_id:path}/views/{index:int}", **PICTURE)
async def get_view(
    request: Request,
    runtime: CollectionDep,
    item_id: str,
    index: int,
    v: str = "",
    small: bool = False,
    size: ViewSize = None,
) -> Response:
    """A rendered view of an item, or `small` for grids. With `v`, as search gives it, it may be kept.

    With a `size` it is rendered anew with so many pixels a side, from the mesh.
    """
    if size is None:
        return await _picture(request, runtime, item_id, "view", index, v, small=small)
    item = await runtime.item(item_id)
    headers = cache_headers(_picture_key(item, "view", index), str(size), v)
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    mesh, observer = await runtime.stored_mesh(item), runtime.service.observer

    def draw(lane: RenderLane) -> bytes:
        drawn = observer.draw(mesh, lane, view=index, size=size)
        return encode_webp(Image.fromarray(drawn.views[0]))

    drawn = await runtime.parent.render_pool.run(draw, mesh.size)
    return Response(drawn, media_type="image/webp", headers=headers)


@router.get("/{item_id:path}/photos/{index:int}", **PICTURE)
async def get_photo(
    request: Request, runtime: CollectionDep, item_id: str, index: int, v: str = "", small: bool = False
) -> Response:
    """A photo of an item as it was handed in, or `small`, as WebP of at most 256 pixels, for grids."""
    return await _picture(request, runtime, item_id, "photo", index, v, small=small)


@router.get("/{item_id:path}/thumbnail", **PICTURE)
async def get_thumbnail(request: Request, runtime: CollectionDep, item_id: str) -> Response:
    """The picture that stands for an item, small: its first photo, else the first view of its mesh."""
    item = await runtime.item(item_id)
    pictures = item.pictures("photo") or item.pictures("view")
    if not pictures:
        raise ApiError(404, "not_found", f"the item {item_id!r} has no picture")
    return await _blob(request, runtime, pictures[0], "", "image/webp", small=True)


@router.get("/{item_id:path}/files/{index:int}", **FILE)
async def get_file(
    request: Request, runtime: CollectionDep, item_id: str, index: int, v: str = ""
) -> Response:
    """The mesh of an item as it was handed in, to be saved."""
    files = (await runtime.item(item_id)).files
    if index >= len(files):
        raise ApiError(404, "not_found", f"the item {item_id!r} has no file {index}")
    key = BlobKey(files[index])
    name = f'attachment; filename="{key[:12]}{key.suffix}"'
    response = await _blob(request, runtime, key, v, "application/octet-stream")
    response.headers["content-disposition"] = name
    return response


@router.put("/{item_id:path}", responses=PUT_ERRORS, openapi_extra=PUT)
async def write_item(request: Request, runtime: CollectionDep, item_id: str) -> ItemWriteAnswer:
    """Write an item in place of its former self; its mesh is rendered, everything is encoded."""
    settings = runtime.service.settings
    if media_type(request.headers) != "multipart/form-data":
        raise ApiError(415, "unsupported_media_type", "send the item as multipart/form-data")
    check_item_id(item_id)
    async with request.form(max_files=settings.max_files) as form:
        files = ItemFiles(runtime.parent.fetcher, settings.max_body)
        source = await parse_item_form(item_id, form, files, settings)
    (written,) = await runtime.put([await runtime.prepare(source)])
    if isinstance(written, MultifoldError):
        raise written
    runtime.audit("put", [item_id], 1)
    return serialize_written(written)


@router.patch("/{item_id:path}", responses=error_responses(400, 404, 413, 422, 429, 503))
async def change_item(runtime: CollectionDep, item_id: str, body: ItemPatchBody) -> ItemWriteAnswer:
    """Change the payload or the captions of an item; its pictures stay."""
    if body.payload is None and body.texts is None:
        raise ApiError(422, "bad_request", "say what to change: 'payload', 'texts' or both")
    texts = body.texts and [check_text(text, runtime.service.settings.max_text) for text in body.texts]
    changed = await runtime.run(lambda: runtime.service.patch(item_id, texts, body.payload))
    runtime.audit("patch", [item_id], 1)
    return serialize_written(changed)


@router.post("/{item_id:path}/similar", responses=error_responses(400, 404, 413, 422, 429, 503))
async def find_similar(runtime: CollectionDep, item_id: str, body: SimilarBody) -> SearchAnswer:
    """Items that are like this one, which itself is left out."""
    part = ItemQueryPart(item_id, choose_sides(body.side, body.target))
    page = SearchPage.of(((part, 1.0),), body)
    one_more = body.model_copy(update={"offset": 0, "after": None, "limit": sum(page.window) + 1})
    found = await runtime.search(((part, 1.0),), one_more)
    hits, following = page.cut([hit for hit in found.hits if hit.id != item_id], 0)
    return serialize_answer(replace(found, hits=hits, next=following), runtime)


@router.get("/{item_id:path}", responses=error_responses(404, 422))
async def get_item(runtime: CollectionDep, item_id: str) -> StoredItem:
    """An item with its payload and all its observations."""
    return serialize_item(await runtime.item(item_id), runtime.address)


@router.delete("/{item_id:path}", responses=error_responses(404, 422))
async def delete_item(runtime: CollectionDep, item_id: str) -> RemovalAnswer:
    """Remove an item. Removing one that is not there removes 0."""
    removed = await runtime.run(lambda: runtime.service.delete([item_id]))
    runtime.audit("delete", [item_id], removed)
    return RemovalAnswer(removed=removed)


async def _picture(
    request: Request, runtime: CollectionRuntime, item_id: str, kind: Kind, index: int, v: str, *, small: bool
) -> Response:
    key = _picture_key(await runtime.item(item_id), kind, index)
    media = "image/webp" if small else PICTURE_TYPES[BlobKey(key).suffix]
    return await _blob(request, runtime, key, v, media, small=small)


def _picture_key(item: Item, kind: Kind, index: int) -> str:
    key = next((o.blob for o in item.observations if (o.kind, o.index) == (kind, index)), None)
    if key is None:
        raise ApiError(404, "not_found", f"the item {item.id!r} has no {kind} {index}")
    return key


def cache_headers(key: str, form: str, v: str) -> dict[str, str]:
    """The tag of what is made of a blob in some form, and how long it may be kept."""
    tag = f'"{key}-{form}"' if form else f'"{key}"'
    return {"etag": tag, "cache-control": FOREVER if v and key.startswith(v) else ASK_AGAIN}


async def _blob(
    request: Request, runtime: CollectionRuntime, key: str, v: str, media: str, *, small: bool = False
) -> Response:
    headers = cache_headers(key, "small" if small else "", v)
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    read = runtime.service.thumbnail if small else runtime.service.collection.blobs.get
    return Response(await runtime.run(partial(read, key)), media_type=media, headers=headers)
