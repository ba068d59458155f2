"""/healthz: alive. /readyz: a real query gave the known answer, just now."""

from typing import Annotated

from app import readiness
from app.errors import ApiError
from app.offload import Desk, desk
from app.routes.refusals import refusals
from app.schemas.info import Health
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """The process is alive."""
    return Health(status="ok")


@router.get("/readyz", responses=refusals(503))
async def readyz(at: Annotated[Desk, Depends(desk)]) -> Health:
    """The encoder answers its canaries, and a known item is found where it belongs."""
    try:
        await at.run(lambda: readiness.check(at.service))
    except MultifoldError as error:
        raise ApiError(503, "not_ready", str(error)) from error
    return Health(status="ok")
