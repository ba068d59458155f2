"""/v1/items/{id}: write, read, change and remove an item, look at its pictures, find what is like it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from app.errors import ApiError
from app.http import serialization
from app.http.dependencies import CollectionDep
from app.http.openapi import BINARY_FILE, FILE_RESPONSE, error_responses
from app.http.parsing import check_item_id, check_text, choose_sides, media_type, parse_item_form
from app.http.schemas.items import ItemPatchBody
from app.http.schemas.search import SimilarBody
from app.ingest.uploads import PICTURE_TYPES, ItemFiles
from app.runtime.runtime import CollectionRuntime
from app.search.query import ItemQueryPart
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Item, Kind
from multifold.wire.items import ItemWriteAnswer, RemovalAnswer, StoredItem
from multifold.wire.search import SearchAnswer

with needs_extra("serve"):
    from fastapi import APIRouter, Request, Response
    from pydantic import TypeAdapter

router = APIRouter(prefix="/items", tags=["items"])
STORED_ITEM = TypeAdapter(StoredItem)
FOREVER, ASK_AGAIN = "private, max-age=31536000, immutable", "private, no-cache"
BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "description": "captions"},
        "images": {
            "type": "array",
            "items": BINARY_FILE,
            "description": "photos, or addresses if it may fetch",
        },
        "mesh": {**BINARY_FILE, "description": "a 3D shape; its views are rendered here"},
        "mesh_format": {"type": "string", "description": "where the file name does not tell, such as glb"},
        "payload": {"type": "string", "description": "your own JSON object, kept with the item"},
    },
}
PUT = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": BODY}}}}
NOTHING: Mapping[str, str] = {}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {"schema": BINARY_FILE}}, "description": "the picture"}
}


@router.get(
    "/{item_id:path}/views/{index:int}",
    responses={**PICTURE, **error_responses(404, 422)},
    response_class=Response,
)
async def view(
    request: Request, runtime: CollectionDep, item_id: str, index: int, v: str = "", small: bool = False
) -> Response:
    """A rendered view of an item, or `small` for grids. With `v`, as search gives it, it may be kept."""
    return await _picture(request, runtime, item_id, "view", index, v, small=small)


@router.get(
    "/{item_id:path}/photos/{index:int}",
    responses={**PICTURE, **error_responses(404, 422)},
    response_class=Response,
)
async def photo(
    request: Request, runtime: CollectionDep, item_id: str, index: int, v: str = "", small: bool = False
) -> Response:
    """A photo of an item as it was handed in, or `small`, as WebP of at most 256 pixels, for grids."""
    return await _picture(request, runtime, item_id, "photo", index, v, small=small)


@router.get(
    "/{item_id:path}/thumbnail", responses={**PICTURE, **error_responses(404, 422)}, response_class=Response
)
async def thumbnail(request: Request, runtime: CollectionDep, item_id: str) -> Response:
    """The picture that stands for an item, small: its first photo, else the first view of its mesh."""
    whole = f"{item_id}/thumbnail"
    if _is_one_segment(request, whole):
        return Response(STORED_ITEM.dump_json(await get(runtime, whole)), media_type="application/json")
    pictures = [one for one in (await _item(runtime, item_id)).observations if one.blob is not None]
    best = min(pictures, key=lambda one: (one.kind != "photo", one.index), default=None)
    if best is None or best.blob is None:
        raise ApiError(404, "not_found", f"the item {item_id!r} has no picture")
    return await _blob(request, runtime, best.blob, "", "image/webp", small=True)


@router.get(
    "/{item_id:path}/files/{index:int}",
    responses={**FILE_RESPONSE, **error_responses(404, 422)},
    response_class=Response,
)
async def file(request: Request, runtime: CollectionDep, item_id: str, index: int, v: str = "") -> Response:
    """The mesh of an item as it was handed in, to be saved."""
    whole = f"{item_id}/files/{index}"
    if _is_one_segment(request, whole):
        return Response(STORED_ITEM.dump_json(await get(runtime, whole)), media_type="application/json")
    files = (await _item(runtime, item_id)).files
    if index >= len(files):
        raise ApiError(404, "not_found", f"the item {item_id!r} has no file {index}")
    name = f'attachment; filename="{files[index][:12]}{files[index][64:]}"'
    return await _blob(
        request, runtime, files[index], v, "application/octet-stream", {"content-disposition": name}
    )


@router.put("/{item_id:path}", responses=error_responses(400, 413, 415, 422, 429, 503), openapi_extra=PUT)
async def put(request: Request, runtime: CollectionDep, item_id: str) -> ItemWriteAnswer:
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
    return serialization.serialize_written(written)


@router.patch("/{item_id:path}", responses=error_responses(404, 413, 422, 429, 503))
async def patch(runtime: CollectionDep, item_id: str, body: ItemPatchBody) -> ItemWriteAnswer:
    """Change the payload or the captions of an item; its pictures stay."""
    if body.payload is None and body.texts is None:
        raise ApiError(422, "bad_request", "say what to change: 'payload', 'texts' or both")
    texts = body.texts and [check_text(text, runtime.service.settings.max_text) for text in body.texts]
    changed = await runtime.run(lambda: runtime.service.patch(item_id, texts, body.payload))
    runtime.audit("patch", [item_id], 1)
    return serialization.serialize_written(changed)


@router.post("/{item_id:path}/similar", responses=error_responses(404, 413, 422, 429, 503))
async def similar(runtime: CollectionDep, item_id: str, body: SimilarBody) -> SearchAnswer:
    """Items that are like this one, which itself is left out."""
    part = ItemQueryPart(item_id, choose_sides(body.side, body.target))
    one_more = body.model_copy(update={"offset": 0, "limit": body.offset + body.limit + 1})
    found = await runtime.search(((part, 1.0),), one_more)
    others = [hit for hit in found.hits if hit.id != item_id]
    page = replace(found, hits=others[body.offset : body.offset + body.limit])
    return serialization.serialize_answer(page, runtime)


@router.get("/{item_id:path}", responses=error_responses(404, 422))
async def get(runtime: CollectionDep, item_id: str) -> StoredItem:
    """An item with its payload and all its observations."""
    return serialization.serialize_item(await _item(runtime, item_id), runtime.address)


@router.delete("/{item_id:path}", responses=error_responses(422))
async def delete(runtime: CollectionDep, item_id: str) -> RemovalAnswer:
    """Remove an item. Removing one that is not there removes 0."""
    removed = await runtime.run(lambda: runtime.service.delete([item_id]))
    runtime.audit("delete", [item_id], removed)
    return RemovalAnswer(removed=removed)


def _is_one_segment(request: Request, item_id: str) -> bool:
    """Whether this id was sent as clients send ids, its slashes written %2F."""
    raw: bytes = request.scope.get("raw_path", b"")
    return raw.partition(b"?")[0].lower().endswith(b"/" + quote(item_id, safe="").lower().encode())


async def _item(runtime: CollectionRuntime, item_id: str) -> Item:
    item = await runtime.run(lambda: runtime.service.collection.get(item_id))
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {item_id!r}")
    return item


async def _picture(
    request: Request, runtime: CollectionRuntime, item_id: str, kind: Kind, index: int, v: str, *, small: bool
) -> Response:
    whole = f"{item_id}/{serialization.PICTURE_FOLDERS[kind]}/{index}"
    if _is_one_segment(request, whole):  # then it is the id of an item that ends so
        return Response(STORED_ITEM.dump_json(await get(runtime, whole)), media_type="application/json")
    item = await _item(runtime, item_id)
    key = next((o.blob for o in item.observations if (o.kind, o.index) == (kind, index)), None)
    if key is None:
        raise ApiError(404, "not_found", f"the item {item_id!r} has no {kind} {index}")
    kind_of = "image/webp" if small else PICTURE_TYPES[key[64:]]
    return await _blob(request, runtime, key, v, kind_of, small=small)


async def _blob(
    request: Request,
    runtime: CollectionRuntime,
    key: str,
    v: str,
    kind: str,
    more: Mapping[str, str] = NOTHING,
    *,
    small: bool = False,
) -> Response:
    tag = f'"{key}-small"' if small else f'"{key}"'
    headers = {"etag": tag, "cache-control": FOREVER if v and key.startswith(v) else ASK_AGAIN, **more}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    data = await runtime.run(
        lambda: runtime.service.thumbnail(key) if small else runtime.service.collection.blobs.get(key)
    )
    return Response(data, media_type=kind, headers=headers)
