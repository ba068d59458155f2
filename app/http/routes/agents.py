"""POST /mcp: the tools for agents over streamable HTTP, where the extra 'mcp' is installed.

Tools ask the routes of this service with the key of their caller, so the same checks hold for them.
"""

import httpx
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import ApiError
from app.http.dependencies import CollectionsDep
from app.http.routers import service_router
from multifold import agents
from multifold.client import AsyncClient

OWN_ADDRESS = "http://127.0.0.1"  # a name that OriginGuard always knows; nothing leaves the process
router = service_router(include_in_schema=False)


class AgentResponse(Response):
    """The answer of another ASGI application to the same request."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


@router.post("/mcp")
async def mcp(request: Request, collections: CollectionsDep) -> AgentResponse:
    """One message of an agent; there are no sessions, and nothing is sent unasked."""
    if not agents.agents_installed():
        raise ApiError(404, "not_found", f"this service has no tools for agents; {agents.NO_AGENTS}")
    state = request.app.state
    if not hasattr(state, "agents"):
        state.agents = await run_in_threadpool(_open_endpoint, request.app, collections.settings.max_body)
    return AgentResponse(state.agents)


def _open_endpoint(app: FastAPI, max_body: int) -> ASGIApp:
    from multifold.agents.server import AgentEndpoint  # it needs an extra, and a second
    from multifold.agents.tools import AgentTools

    client = AsyncClient(OWN_ADDRESS, transport=httpx.ASGITransport(app))
    return AgentEndpoint(AgentTools(client), max_body)
