"""/healthz: the process is alive. /readyz: a real query gives the known answer. /metrics: for Prometheus."""

import asyncio
from typing import Any

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from app.errors import ApiError
from app.http.dependencies import CollectionsDep
from app.http.openapi import error_responses
from app.http.routers import service_router
from app.operations.telemetry import MEDIA_TYPE
from app.runtime import probes
from app.runtime.collections import Collections
from index.cluster.contracts import ClusterError
from index.store.database import StoreError
from multifold.bundle import canary
from multifold.errors import MultifoldError
from multifold.wire.service import HealthAnswer

READY_SECONDS = 8.0  # less than a probe waits
router = service_router(tags=["health"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format"}
}


@router.get("/healthz")
async def get_health() -> HealthAnswer:
    """The process is alive."""
    return HealthAnswer(status="ok")


@router.get("/readyz", responses=error_responses(503))
async def get_readiness(collections: CollectionsDep) -> HealthAnswer:
    """The encoder answers its canaries, and a known item is found where it belongs.

    Where services share a database or a cluster that is away, each of them is ready and says `store_away`:
    another replica would be no better.
    """
    try:
        try:
            await asyncio.wait_for(_check(collections), READY_SECONDS)
        except (StoreError, ClusterError, TimeoutError) as error:
            known = not isinstance(error, TimeoutError) or collections.store_is_away
            if not (collections.shared and known):
                raise
            await run_in_threadpool(canary.check, collections.main.encoder)
            return HealthAnswer(status="store_away")
    except (MultifoldError, TimeoutError) as error:
        reason = str(error) or f"no answer within {READY_SECONDS:.0f} seconds"
        raise ApiError(503, "not_ready", reason) from error
    return HealthAnswer(status="ok")


async def _check(collections: Collections) -> None:
    service = await collections.find()
    await service.run(lambda: probes.check_readiness(service))


@router.get("/metrics", response_class=Response, responses={**TEXT, **error_responses(429, 503)})
async def get_metrics(collections: CollectionsDep) -> Response:
    """Requests, queues, batches, cache, collection and memory."""
    service = await collections.find()
    text = await service.run(service.workers.telemetry.text)
    return Response(text, media_type=MEDIA_TYPE)
