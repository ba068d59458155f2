"""The application: routes, errors and middleware around one service."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from app import errors
from app.collections.collections import Collections, open_collections
from app.http.access import ApiKeyGuard, OriginGuard, is_loopback
from app.http.dependencies import collection_name
from app.http.forms import FORMS
from app.http.middleware import BodyLimit, ErrorBoundary, HeaderCheck, RequestIdMiddleware, RequestTimeout
from app.http.openapi import TAGS, complete_description, error_responses, operation_name
from app.http.routes import (
    agents,
    bulk,
    collections,
    embeddings,
    feedback,
    health,
    info,
    insight,
    items,
    jobs,
    labels,
    originals,
    pages,
    search,
    snapshots,
)
from app.runtime.bulk import job_handlers
from app.settings import Settings, split_list

CROSS_ORIGIN: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": ["authorization", "content-type", "x-api-key", "x-request-id"],
    "expose_headers": ["x-request-id", "retry-after"],
}
ABOUT = (
    "Find things by any of their sides: text, photo, 3D shape. Every route of a collection has a short form, "
    "which is not listed here: /v1/search is /v1/collections/default/search."
)
COLLECTION_ROUTERS = (
    *(search, bulk, originals, items, feedback, embeddings, snapshots, info, insight, labels),
)
SERVICE_ROUTERS = (collections, jobs, health, pages, agents)


def create_app(settings: Settings, opened: Collections | None = None) -> FastAPI:
    """The service over HTTP. It opens what the settings name, unless collections are given that are open."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as stack:
            collections = opened or stack.enter_context(open_collections(settings))
            app.state.collections = collections
            async with collections.at_work(job_handlers(collections)):
                yield

    app = FastAPI(
        title="Multifold",
        description=ABOUT,
        version=version("multifold"),
        lifespan=lifespan,
        openapi_tags=[{"name": name, "description": about} for name, about in TAGS.items()],
        docs_url=None,  # its pages would load code from other hosts; ours are at the same address
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # we tell our own
    )
    errors.install_error_handlers(app)
    app.add_middleware(BodyLimit, limit=settings.max_body)
    app.add_middleware(RequestTimeout, seconds=settings.request_timeout)
    if keys := settings.known_keys():
        app.add_middleware(ApiKeyGuard, keys=keys, open_read=settings.open_read)
    else:
        local = bool(settings.hosts) or is_loopback(settings.host)
        hosts = split_list(settings.hosts.lower()) if local else None
        app.add_middleware(OriginGuard, hosts=hosts, origins=settings.origins)
    if settings.origins:
        app.add_middleware(CORSMiddleware, allow_origins=settings.origins, **CROSS_ORIGIN)
    app.add_middleware(HeaderCheck)
    app.add_middleware(ErrorBoundary)
    app.add_middleware(RequestIdMiddleware)
    app.router.routes += api_routes()
    app.mount("/web/swagger", StaticFiles(packages=[("fastapi_swagger", "resources")]))
    app.mount("/web", StaticFiles(directory=pages.WEB))
    complete_description(app, FORMS)
    return app


@cache
def api_routes() -> tuple[BaseRoute, ...]:
    """The routes of all services of this process, since half a second goes into making them."""
    every = APIRouter(generate_unique_id_function=operation_name)
    for routes in COLLECTION_ROUTERS:
        every.include_router(routes.router, prefix="/v1", include_in_schema=False)
    for routes in SERVICE_ROUTERS:
        every.include_router(routes.router)
    for routes in COLLECTION_ROUTERS:  # after the short forms, which most requests use
        every.include_router(
            routes.router,
            prefix="/v1/collections/{collection}",
            dependencies=[Depends(collection_name)],
            responses=error_responses(404, 422),
        )
    list(iter_route_contexts(every.routes))  # made here; else by whoever asks first
    return tuple(every.routes)
