"""ASGI middleware: request ids, API keys, time and size limits, and the answer to unexpected errors."""

import asyncio
import logging
import re
import secrets
import time
from itertools import count

from app.errors import error_response
from app.http.keys import ApiKey, ApiKeys, KeyScope
from app.operations import logs
from app.operations.logs import key_name
from app.operations.telemetry import Telemetry
from multifold.errors import needs_extra

with needs_extra("serve"):
    import anyio
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CLIENT_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
CLIENT_LEFT = 499  # the status of requests whose client left, as nginx has it
DRAIN_FACTOR, DRAIN_SECONDS = 4, 5.0
_log = logging.getLogger("multifold.app")


class RequestIdMiddleware:
    """Gives a request its id, sends it and security headers with every answer, and counts the request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        # one random number at the start: asking the system each time would release the interpreter's lock
        start = secrets.token_hex(8)
        self._ids = (f"{start}{number:016x}" for number in count())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        wanted = headers.get("x-request-id", "")
        request_id = wanted if CLIENT_REQUEST_ID.fullmatch(wanted) else next(self._ids)
        scope.setdefault("state", {})["request_id"] = request_id
        logs.request_id.set(request_id)
        start, status = time.perf_counter(), CLIENT_LEFT

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer_headers = MutableHeaders(scope=message)
                answer_headers["x-request-id"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    answer_headers.setdefault(name, value)
            await send(message)

        telemetry: Telemetry = scope["app"].state.runtime.telemetry
        with telemetry.tracing.request(scope["method"], headers, request_id) as answered:
            try:
                await self.app(scope, receive, send_with_headers)
            finally:
                route = _route_template(scope)
                telemetry.request(scope["method"], route, status, time.perf_counter() - start)
                answered(route, status)


def _route_template(scope: Scope) -> str:
    """The path of the route that answered, with its parameters in braces.

    FastAPI keeps the whole path of an included router's route beside the route itself.
    """
    route = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    return getattr(route, "path", "none")


class ErrorBoundary:
    """Turns an unexpected exception into a 500 without details; the log has them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, note_start)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            request_id = scope["state"]["request_id"]
            _log.exception("request %s: %s %s failed", request_id, scope["method"], scope["path"])
            sentence = "something broke on our side; the service's log has the details under this request id"
            await error_response(request_id, 500, "internal", sentence)(scope, receive, send)


class RequestTimeout:
    """Cancels a request that takes too long, or whose client has left."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = gone = False
        watcher: asyncio.Task[None] | None = None

        async def watch_for_disconnect() -> None:
            nonlocal gone
            gone = (await receive())["type"] == "http.disconnect"
            limit.cancel()

        async def receive_and_watch() -> Message:
            nonlocal watcher
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body") and watcher is None:
                watcher = asyncio.create_task(watch_for_disconnect())
            return message

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with anyio.move_on_after(self.seconds) as limit:
            try:
                await self.app(scope, receive_and_watch, note_start)
            except ClientDisconnect:
                gone = True
            finally:
                if watcher is not None:
                    watcher.cancel()
        if limit.cancelled_caught and not (started or gone):
            sentence = f"it was given up after {self.seconds:g} s; try again, or ask for less"
            response = error_response(scope["state"]["request_id"], 503, "timeout", sentence)
            response.headers["retry-after"] = "1"
            await response(scope, receive, send)


class BodyLimit:
    """Refuses bodies above a size, announced or not.

    The rest of a refused body is read and dropped (within bounds): a client that is still
    sending would otherwise meet a reset connection instead of the answer.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "0")
        read = 0

        async def receive_limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limit:
                if message.get("more_body"):
                    await self._drain(receive)
                raise self._too_large()
            return message

        async def refuse() -> Message:
            if "expect" not in headers:  # else the client waits before it sends
                await self._drain(receive)
            raise self._too_large()

        too_large = announced.isdecimal() and int(announced) > self.limit
        await self.app(scope, refuse if too_large else receive_limited, send)

    async def _drain(self, receive: Receive) -> None:
        dropped = 0
        with anyio.move_on_after(DRAIN_SECONDS):
            while dropped < DRAIN_FACTOR * self.limit:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body"):
                    return

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the request is larger than {self.limit:,} bytes; send less at once")


COLLECTION_PREFIX = re.compile(r"/v1/collections/[^/]+(?=/)")
OPEN_PATHS = re.compile(r"/|/healthz|/readyz|/openapi\.json|/web/.*")
READ_PATHS = re.compile(
    r"/v1/(search|search/batch|facets|embeddings|traverse|explain|items/scroll|items/count|items/.+/similar)",
    re.DOTALL,
)
WRITE_PATHS = re.compile(r"/v1/items(/.*)?|/v1/jobs/[^/]+/cancel", re.DOTALL)
# queries of other people are not for everyone who may search
FEEDBACK_PATHS = re.compile(r"/v1/feedback(/.*)?", re.DOTALL)
ADMIN_PATHS = re.compile(r"/v1/snapshots(/.*)?", re.DOTALL)


def required_scope(method: str, path: str) -> KeyScope | None:
    """The scope that a request needs, None for none. A path that is not listed needs admin.

    The routes of a named collection need what their short forms need.
    """
    if named := COLLECTION_PREFIX.match(path):
        path = f"/v1{path[named.end() :]}"
    if OPEN_PATHS.fullmatch(path):
        return None
    if ADMIN_PATHS.fullmatch(path):
        return "admin"
    if FEEDBACK_PATHS.fullmatch(path):
        return "write"
    if method in ("GET", "HEAD") or (method == "POST" and READ_PATHS.fullmatch(path)):
        return "read"
    return "write" if WRITE_PATHS.fullmatch(path) else "admin"


class ApiKeyGuard:
    """Lets requests through that have the right key. With `open_read`, reading needs none."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, *, open_read: bool) -> None:
        self.app, self._keys, self._open_read = app, keys, open_read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        needed = required_scope(scope["method"], scope["path"])
        key = self._keys.find(_presented_key(Headers(scope=scope)))
        key_name.set(key.name if key else None)
        if needed is None or (needed == "read" and self._open_read) or (key and key.may(needed)):
            await self.app(scope, receive, send)
            return
        response = _key_refusal(scope["state"]["request_id"], key, needed)
        await response(scope, receive, send)


def _key_refusal(request_id: str, key: ApiKey | None, needed: KeyScope) -> Response:
    if key is not None:
        return error_response(
            request_id, 403, "forbidden", f"the key {key.name} may {key.scope}; this needs {needed}"
        )
    sentence = f"this needs a key that may {needed}: send it as 'Authorization: Bearer KEY'"
    response = error_response(request_id, 401, "unauthorized", sentence)
    response.headers["www-authenticate"] = "Bearer"
    return response


def _presented_key(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
