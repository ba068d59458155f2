"""/v1/items/{id}: write, read, change and remove an item, and look at its pictures."""

from collections import Counter
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request, Response
from PIL import Image
from starlette.routing import Match
from starlette.types import Scope

from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.dependencies import AddressDep, CollectionDep, ItemDep
from app.http.forms import FormRoute, check_form, form_body, read_item_form
from app.http.openapi import FILE, body_errors, error_responses, file_route
from app.http.routers import CollectionRoute, collection_router
from app.ingest.new_items import load_item
from app.ingest.pipeline import WrittenItem
from app.ingest.sources import find_original_photo
from app.ingest.thumbnails import make_thumbnail, read_thumbnail
from app.ingest.uploads import PICTURE_TYPES, ItemFiles, check_text
from index.store.blobs import BlobKey
from multifold.bundle.preprocess import decode, encode_webp
from multifold.errors import MultifoldError
from multifold.types import KIND_OF, Item, Kind, Observation
from multifold.wire.items import (
    ItemBody,
    ItemFile,
    ItemPatchBody,
    ItemWriteAnswer,
    NewItem,
    ObservationInfo,
    RemovalAnswer,
    StoredItem,
)
from renderers.lanes import RenderLane


class ItemRoute(CollectionRoute):
    """A route of an item's part, such as a view, takes no id that ends so and came as one segment: `%2F`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        last_segment: bytes = scope.get("raw_path", b"").partition(b"?")[0].rpartition(b"/")[2]
        if b"%2f" in last_segment.lower() and not self.path.endswith("{item_id:path}"):
            return Match.NONE, {}
        return super().matches(scope)


router = collection_router(prefix="/items", tags=["items"], route_class=ItemRoute)
FOREVER, ASK_AGAIN = "private, max-age=31536000, immutable", "private, no-cache"
PICTURE_FOLDERS = {"view": "views", "photo": "photos"}
TAG_LENGTH = 12
ViewSize = Annotated[int | None, Query(ge=64, le=1024, description="pixels a side; else as stored")]
WithVectors = Annotated[bool, Query(description="with the vector of each observation")]
PICTURE = file_route("image/*", "the picture")


@router.get("/{item_id:path}/views/{index:int}", **PICTURE)
async def get_view(
    request: Request,
    service: CollectionDep,
    item: ItemDep,
    index: int,
    v: str = "",
    small: bool = False,
    size: ViewSize = None,
) -> Response:
    """A rendered view of an item, or `small` for grids. With `v`, as search gives it, it may be kept.

    With a `size` it is rendered again from the mesh, with so many pixels a side.
    """
    if size is None:
        return await _picture(request, service, item, "view", index, v, small=small)
    headers = cache_headers(_picture_key(item, "view", index), str(size), v)
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    mesh = await service.run(partial(service.stored_mesh, item), admitted=True)

    def draw(lane: RenderLane) -> bytes:
        drawn = service.observer.draw(mesh, lane, view=index, size=size)
        return encode_webp(Image.fromarray(drawn.views[0]))

    drawn = await service.workers.render.run(draw, mesh.size)
    return Response(drawn, media_type="image/webp", headers=headers)


@router.get("/{item_id:path}/photos/{index:int}", **PICTURE)
async def get_photo(
    request: Request, service: CollectionDep, item: ItemDep, index: int, v: str = "", small: bool = False
) -> Response:
    """A photo of an item as it was handed in, or `small`, as WebP of at most 256 pixels, for grids."""
    return await _picture(request, service, item, "photo", index, v, small=small)


@router.get("/{item_id:path}/thumbnail", **PICTURE)
async def get_thumbnail(request: Request, service: CollectionDep, item: ItemDep) -> Response:
    """The picture that stands for an item, small: its first photo, else the view of its mesh from aside.

    A photo of a followed folder stands for its item as soon as that is named.
    """
    views = item.pictures("view")
    pictures = item.pictures("photo") or views[service.observer.standing_view :] or views
    if pictures:
        return await _blob(request, service, pictures[0], "", "image/webp", small=True)
    photo = find_original_photo(service.home, item.payload)
    if photo is None:
        raise ApiError(404, "not_found", f"the item {item.id!r} has no picture")
    most = service.settings.max_pixels
    small = await service.run(lambda: make_thumbnail(decode(photo.read_bytes(), most)), admitted=True)
    return Response(small, media_type="image/webp", headers={"cache-control": "no-store"})


@router.get("/{item_id:path}/files/{index:int}", **FILE)
async def get_file(
    request: Request, service: CollectionDep, item: ItemDep, index: int, v: str = ""
) -> Response:
    """The mesh of an item as it was handed in, to be saved."""
    if index >= len(item.files):
        raise ApiError(404, "not_found", f"the item {item.id!r} has no file {index}")
    key = BlobKey(item.files[index])
    name = f'attachment; filename="{key[:12]}{key.suffix}"'
    response = await _blob(request, service, key, v, "application/octet-stream")
    response.headers["content-disposition"] = name
    return response


async def write_item_by_form(request: Request, service: CollectionDep) -> ItemWriteAnswer:
    """Write an item in place of its former self by a form, which may hold files."""
    check_form(request)
    async with request.form(max_files=service.settings.max_files) as form:
        item = await read_item_form(form, request.path_params.get("item_id"))
    return await _write(service, item)


router.add_api_route(  # before the route for JSON, which takes what is left
    "/{item_id:path}",
    write_item_by_form,
    methods=["PUT"],
    include_in_schema=False,
    route_class_override=FormRoute,
)
FORM: dict[str, Any] = {"responses": body_errors(404), "openapi_extra": form_body("ItemForm")}
router.add_api_route("/form", write_item_by_form, methods=["POST"], **FORM)


@router.put("/{item_id:path}", responses=body_errors(404))
async def write_item(service: CollectionDep, item_id: str, body: ItemBody) -> ItemWriteAnswer:
    """Write an item in place of its former self; its mesh is rendered, everything is encoded."""
    return await _write(service, NewItem.of(body, id=item_id))


@router.patch("/{item_id:path}", responses=body_errors(404))
async def change_item(service: CollectionDep, item_id: str, body: ItemPatchBody) -> ItemWriteAnswer:
    """Change the payload or the captions of an item; its pictures stay."""
    texts = body.texts and [check_text(text, service.settings.max_text) for text in body.texts]
    changed = await service.patch(item_id, texts, body.payload)
    service.audit("patch", [item_id], 1)
    return serialize_written(changed)


@router.get("/{item_id:path}", responses=error_responses(404, 422))
async def get_item(item: ItemDep, address: AddressDep, vectors: WithVectors = False) -> StoredItem:
    """An item with its payload and all its observations."""
    return serialize_item(item, address, vectors=vectors)


@router.delete("/{item_id:path}", responses=error_responses(404, 422))
async def delete_item(service: CollectionDep, item_id: str) -> RemovalAnswer:
    """Remove an item. Removing one that is not there removes 0."""
    removed = await service.changes.remove([item_id])
    service.audit("delete", [item_id], removed)
    return RemovalAnswer(removed=removed)


async def _write(service: CollectionService, item: NewItem) -> ItemWriteAnswer:
    settings = service.settings
    service.changes.refuse_if_full()
    source = await load_item(item, ItemFiles(service.workers.fetcher, settings.max_body), settings)
    prepared = await service.prepare(source)
    (written,) = await service.write([prepared])
    if isinstance(written, MultifoldError):
        raise written
    service.audit("put", [item.id], 1)
    return serialize_written(written)


async def _picture(
    request: Request, service: CollectionService, item: Item, kind: Kind, index: int, v: str, *, small: bool
) -> Response:
    key = _picture_key(item, kind, index)
    media = "image/webp" if small else PICTURE_TYPES[BlobKey(key).suffix]
    return await _blob(request, service, key, v, media, small=small)


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
    request: Request, service: CollectionService, key: str, v: str, media: str, *, small: bool = False
) -> Response:
    headers = cache_headers(key, "small" if small else "", v)
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    blobs = service.collection.blobs
    read = partial(blobs.get, key)
    if small:
        read = partial(read_thumbnail, service.home, blobs, key, service.settings.max_pixels)
    return Response(await service.run(read, admitted=True), media_type=media, headers=headers)


def serialize_item(item: Item, address: str, *, vectors: bool = False) -> StoredItem:
    """An item; `address` is that of the collection."""
    home = item_address(address, item.id)
    return StoredItem(
        id=item.id,
        payload=dict(item.payload),
        observations=tuple(serialize_observation(one, home, vectors=vectors) for one in item.observations),
        files=tuple(
            ItemFile(index, f"{home}/files/{index}?v={key[:TAG_LENGTH]}", BlobKey(key).suffix.lstrip("."))
            for index, key in enumerate(item.files)
        ),
        notes=item.notes,
    )


def item_address(address: str, name: str) -> str:
    """Where an item is, below the address of its collection."""
    return f"{address}/items/{quote(name, safe='')}"


def serialize_observation(observation: Observation, home: str, *, vectors: bool = False) -> ObservationInfo:
    """An observation of the item at `home`, with the address of its picture, which changes when that does."""
    url = None
    if observation.blob is not None:
        folder = PICTURE_FOLDERS.get(observation.kind)
        url = f"{home}/{folder}/{observation.index}?v={observation.blob[:TAG_LENGTH]}"
    vector = tuple(observation.feature.ravel().tolist()) if vectors else None
    return ObservationInfo(observation.kind, observation.index, url, observation.text, vector)


def serialize_written(written: WrittenItem) -> ItemWriteAnswer:
    kinds = [observation.kind for observation in written.item.observations]
    counts = dict.fromkeys(KIND_OF.values(), 0) | Counter(kinds)
    return ItemWriteAnswer(written.item.id, written.version, counts, tuple(written.warnings))
