"""/healthz: the process is alive. /readyz: a real query gives the known answer. /metrics: for Prometheus."""

from typing import Any

from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import error_responses
from app.http.schemas.info import HealthAnswer
from app.operations import readiness
from app.operations.telemetry import MEDIA_TYPE
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Response

router = APIRouter(tags=["health"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"}
}


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


@router.get("/metrics", response_class=Response, responses={**TEXT, **error_responses(429, 503)})
async def metrics(runtime: CollectionDep) -> Response:
    """Requests, queues, batches, cache, collection and memory."""
    text = await runtime.run(runtime.parent.telemetry.registry.text)
    return Response(text, media_type=MEDIA_TYPE)
