"""GET /metrics: numbers for Prometheus."""

from typing import Annotated, Any

from app.http.openapi import error_responses
from app.operations.telemetry import MEDIA_TYPE
from app.runtime.runtime import CollectionRuntime, collection_runtime
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Response

router = APIRouter(tags=["health"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"}
}


@router.get("/metrics", response_class=Response, responses={**TEXT, **error_responses(429, 503)})
async def metrics(at: Annotated[CollectionRuntime, Depends(collection_runtime)]) -> Response:
    """Requests, queues, batches, cache, collection and memory."""
    text = await at.run(at.runtime.telemetry.registry.text)
    return Response(text, media_type=MEDIA_TYPE)
