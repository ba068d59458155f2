"""The application: routes, errors and middleware around one service."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware

from app import errors
from app.http.access import ApiKeyGuard, OriginGuard, is_loopback
from app.http.forms import FORMS
from app.http.middleware import BodyLimit, ErrorBoundary, HeaderCheck, RequestIdMiddleware, RequestTimeout
from app.http.openapi import TAGS, complete_description
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
from app.runtime.collections import Collections, open_collections
from app.search.many import open_remotes
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
COLLECTION_ROUTES = (
    *(search, bulk, originals, items, feedback, embeddings, snapshots, info, insight, labels),
)
SERVICE_ROUTES = (collections, jobs, health, pages, agents)


def create_app(settings: Settings, opened: Collections | None = None) -> FastAPI:
    """The service over HTTP. It opens what the settings name, unless collections are given that are open."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as stack:
            collections = opened or stack.enter_context(open_collections(settings))
            app.state.collections = collections
            async with (
                collections.at_work(job_handlers(collections)),
                open_remotes(settings.remote_collections) as app.state.remotes,
            ):
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
    for module in (*COLLECTION_ROUTES, *SERVICE_ROUTES):
        app.router.routes += module.router.routes
    app.mount("/web/swagger", StaticFiles(packages=[("fastapi_swagger", "resources")]))
    app.mount("/web", StaticFiles(directory=pages.WEB))
    complete_description(app, FORMS)
    return app
