"""The application: routes, errors and middleware around one service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from app import errors
from app.bodies import describing
from app.guard import Guard
from app.middleware import BodyLimit, Envelope, LastNet, Patience
from app.naming import Named
from app.offload import Office
from app.routes import (
    bulk,
    collections,
    embeddings,
    facets,
    feedback,
    health,
    info,
    insight,
    items,
    jobs,
    metrics,
    pages,
    search,
    snapshots,
)
from app.schemas.embeddings import EmbeddingsBody
from app.schemas.feedback import FeedbackBody
from app.schemas.insight import ExplainBody, TraverseBody
from app.schemas.items import BulkBody
from app.schemas.search import BatchBody, SearchBody
from app.settings import Settings
from app.shelf import Shelf, opened
from app.workers import workers
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI
    from fastapi.routing import iter_route_contexts
    from starlette.middleware.cors import CORSMiddleware

CROSS_ORIGIN: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": ["authorization", "content-type", "x-api-key", "x-request-id"],
    "expose_headers": ["x-request-id", "retry-after"],
}
ABOUT = (
    "Find things by any of their sides: text, photo, 3D shape. What begins with /v1/search, /v1/explain, "
    "/v1/traverse, /v1/items, /v1/facets, /v1/feedback, /v1/embeddings, /v1/models, /v1/snapshots or "
    "/v1/info is about the default collection; with /v1/collections/NAME in place of /v1 it is about the one "
    "of that name or alias."
)


def create_app(settings: Settings, shelf: Shelf | None = None) -> FastAPI:
    """The service over HTTP. It opens what the settings name, unless a shelf is given that is open."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if shelf is not None:
            async with Office.of(shelf, workers) as app.state.office:
                yield
            return
        with opened(settings) as own:
            async with Office.of(own, workers) as app.state.office:
                yield

    # The interactive documentation pages would load code from other hosts; the schema itself stays.
    app = FastAPI(
        title="Multifold",
        description=ABOUT,
        version=version("multifold"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # we tell our own
    )
    errors.install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body)
    app.add_middleware(Patience, seconds=settings.patience)
    app.add_middleware(Guard, keys=settings.known_keys(), open_read=settings.open_read)
    app.add_middleware(Named)
    if settings.origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.origins, **CROSS_ORIGIN)
    app.add_middleware(LastNet)
    app.add_middleware(Envelope)
    for part in (
        search,
        bulk,
        items,
        facets,
        feedback,
        embeddings,
        snapshots,
        collections,
        jobs,
        info,
        insight,
        health,
        metrics,
        pages,
    ):
        app.include_router(part.router)
    app.mount("/web", pages.files())
    own = (SearchBody, BatchBody, BulkBody, EmbeddingsBody, TraverseBody, ExplainBody, FeedbackBody)
    app.openapi = describing(app, *own)  # type: ignore[method-assign]
    list(iter_route_contexts(app.routes))  # made here, once; else by whoever asks first
    return app
