"""What is made of the originals of items: a mesh as GLB for viewers, and a ZIP file of several items."""

from functools import partial
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from app.http.dependencies import CollectionDep, ItemDep
from app.http.openapi import error_responses, file_route
from app.http.routers import collection_router
from app.http.routes.items import ItemRoute, cache_headers
from app.ingest.archive import stream_archive
from app.ingest.uploads import check_many

router = collection_router(tags=["items"], route_class=ItemRoute)
GLB_TYPE, ZIP_TYPE = "model/gltf-binary", "application/zip"
Ids = Annotated[list[str], Query(alias="id", min_length=1, description="of an item; repeat it for more")]


@router.get("/items/{item_id:path}/model", **file_route(GLB_TYPE, "the mesh"))
async def get_item_model(request: Request, service: CollectionDep, item: ItemDep, v: str = "") -> Response:
    """The mesh of an item as GLB, whatever its format: upright, in the unit ball, with base colours."""
    headers = cache_headers(item.files[0], "glb", v) if item.files else {}
    if headers and request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    mesh = await service.run(partial(service.stored_mesh, item))
    convert = partial(service.observer.glb, mesh)
    return Response(await service.workers.render.run(convert, mesh.size), 200, headers, GLB_TYPE)


ARCHIVE = file_route(ZIP_TYPE, "the files")
ARCHIVE["responses"] |= error_responses(429, 503)


@router.get("/archive", **ARCHIVE)
async def get_archive(service: CollectionDep, ids: Ids) -> Response:
    """The originals of items with their captions and payloads as one ZIP file, which an ingest can read."""
    check_many(len(ids), "items", service.settings.max_batch)
    items = [await service.run(partial(service.item, name)) for name in dict.fromkeys(ids)]
    stream = stream_archive(service.collection.blobs, items)
    headers = {"content-disposition": 'attachment; filename="multifold.zip"'}
    return StreamingResponse(stream, headers=headers, media_type=ZIP_TYPE)
