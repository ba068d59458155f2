"""The search page at /, and the files it is made of."""

from pathlib import Path

from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter
    from fastapi.responses import FileResponse
    from fastapi.staticfiles import StaticFiles

WEB = Path(__file__).parent.parent / "web"
router = APIRouter(include_in_schema=False)


@router.get("/")
async def page() -> FileResponse:
    """The search page."""
    return FileResponse(WEB / "index.html", headers={"cache-control": "no-cache"})


def files() -> StaticFiles:
    """Its style and modules."""
    return StaticFiles(directory=WEB)
