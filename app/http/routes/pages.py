"""The search page at /, the pages of the API at /docs, and the files they are made of."""

from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

WEB = Path(__file__).parents[2] / "web"
router = APIRouter(include_in_schema=False)


@router.get("/")
async def page() -> FileResponse:
    """The search page."""
    return FileResponse(WEB / "index.html", headers={"cache-control": "no-cache", "link": modules()})


@router.get("/docs")
async def docs() -> FileResponse:
    """The API, to be read and tried."""
    return FileResponse(WEB / "docs" / "index.html", headers={"cache-control": "no-cache"})


@cache
def modules() -> str:
    """A header by which its modules are asked for at once, not one after the other as each names the next."""
    return ", ".join(f"</web/{path.name}>; rel=modulepreload" for path in sorted(WEB.glob("*.js")))
