"""/healthz: alive. /readyz: a real query gave the known answer, just now."""

from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import error_responses
from app.http.schemas.info import HealthAnswer
from app.operations import readiness
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """The process is alive."""
    return HealthAnswer(status="ok")


@router.get("/readyz", responses=error_responses(503))
async def readyz(runtime: CollectionDep) -> HealthAnswer:
    """The encoder answers its canaries, and a known item is found where it belongs."""
    try:
        await runtime.run(lambda: readiness.check_readiness(runtime.service))
    except MultifoldError as error:
        raise ApiError(503, "not_ready", str(error)) from error
    return HealthAnswer(status="ok")
