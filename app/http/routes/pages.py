"""The search page at /, the pages of the API at /docs, their files, and the key that a user has entered."""

from functools import cache
from pathlib import Path
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from pydantic import BaseModel

from app.errors import ApiError
from app.http.access import KEY_COOKIE, is_own_page
from app.http.dependencies import CollectionsDep
from app.http.routers import service_router
from app.operations.keys import find_key
from renderers.mesh.formats.table import EXTENSIONS

WEB = Path(__file__).parents[2] / "web"
router = service_router(include_in_schema=False)


@router.get("/")
async def page() -> HTMLResponse:
    """The search page."""
    return HTMLResponse(search_page(), headers={"cache-control": "no-cache", "link": modules()})


@router.get("/docs")
async def docs() -> FileResponse:
    """The API, to be read and tried."""
    return FileResponse(WEB / "docs" / "index.html", headers={"cache-control": "no-cache"})


@cache
def search_page() -> str:
    """The search page, which takes the meshes that are read."""
    text = (WEB / "index.html").read_text(encoding="utf-8")
    return text.replace("{meshes}", ",".join(EXTENSIONS))


@cache
def modules() -> str:
    """A header by which its modules are asked for at once, not one after the other as each names the next."""
    return ", ".join(f"</web/{path.name}>; rel=modulepreload" for path in sorted(WEB.glob("*.js")))


class SessionBody(BaseModel):
    """The key that a user has entered."""

    key: str


@router.post("/v1/session")
async def enter(request: Request, collections: CollectionsDep, body: SessionBody) -> Response:
    """Keep a key in a cookie until the browser is closed: pictures send no header, and no script reads it."""
    if not is_own_page(request.headers):
        raise ApiError(403, "foreign_origin", "pages of other sites may change nothing here")
    key = find_key(collections.settings.known_keys(), body.key)
    if key is None:
        raise ApiError(401, "unauthorized", "this key is not known here")
    response = JSONResponse({"key": key.name, "scope": key.scope})
    secure = request.url.scheme == "https"
    response.set_cookie(KEY_COOKIE, quote(body.key), httponly=True, samesite="strict", secure=secure)
    return response


@router.delete("/v1/session")
async def leave() -> Response:
    """Forget the key."""
    response = JSONResponse({})
    response.delete_cookie(KEY_COOKIE, httponly=True, samesite="strict")
    return response
