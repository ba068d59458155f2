"""GET /metrics: numbers for Prometheus."""

from typing import Any

from app.http.dependencies import CollectionDep
from app.http.openapi import error_responses
from app.operations.telemetry import MEDIA_TYPE
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Response

router = APIRouter(tags=["health"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"}
}


@router.get("/metrics", response_class=Response, responses={**TEXT, **error_responses(429, 503)})
async def metrics(runtime: CollectionDep) -> Response:
    """Requests, queues, batches, cache, collection and memory."""
    text = await runtime.run(runtime.parent.telemetry.registry.text)
    return Response(text, media_type=MEDIA_TYPE)
