"""ASGI middleware: request ids, keys, origins, limits, and the answer to errors."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address
from itertools import count
from urllib.parse import unquote, urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import error_response
from app.operations import logs
from app.operations.keys import ApiKey, KeyScope, find_key
from app.operations.logs import key_name
from app.operations.telemetry import Telemetry

SECURITY_HEADERS = {
    b"content-security-policy": (
        b"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
CLIENT_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
CLIENT_LEFT = 499  # the status of requests whose client left, as nginx has it
WATCH_AFTER = 0.05  # seconds that a request takes before it is worth a task that sees its client leave
DRAIN_FACTOR, DRAIN_SECONDS = 4, 5.0
_log = logging.getLogger("multifold.app")


class HttpMiddleware:
    """Middleware that handles requests; other connections pass."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class RequestIdMiddleware(HttpMiddleware):
    """Gives a request its id, sends it and security headers with every answer, and counts the request."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        # one random number at the start: asking the system each time would release the interpreter's lock
        start = secrets.token_hex(8)
        self._ids = (f"{start}{number:016x}" for number in count())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                given = [pair for pair in message.get("headers", ()) if pair[0] != b"x-request-id"]
                names = {name for name, _ in given}
                own = [pair for pair in SECURITY_HEADERS.items() if pair[0] not in names]
                message["headers"] = [*given, *own, (b"x-request-id", request_id.encode())]
            await send(message)

        telemetry: Telemetry = scope["app"].state.runtime.telemetry
        with telemetry.tracing.request(scope["method"], headers, request_id) as answered:
            try:
                await self.app(scope, receive, send_with_headers)
            finally:
                # FastAPI keeps the whole path of an included router's route beside the route itself
                found = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
                route = getattr(found, "path", "none")
                telemetry.request(scope["method"], route, status, time.perf_counter() - start)
                answered(route, status)


class ErrorBoundary(HttpMiddleware):
    """Turns an unexpected exception into a 500 without details; the log has them."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, note_start)
        except Exception:
            if started:
                raise
            request_id = scope["state"]["request_id"]
            _log.exception("request %s: %s %s failed", request_id, scope["method"], scope["path"])
            sentence = "something broke on our side; the service's log has the details under this request id"
            await error_response(request_id, 500, "internal", sentence)(scope, receive, send)


class RequestTimeout(HttpMiddleware):
    """Cancels a request that takes too long, or whose client has left."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        super().__init__(app)
        self.seconds = seconds

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = gone = False
        watcher: asyncio.TimerHandle | asyncio.Task[None] | None = None

        async def watch_for_disconnect() -> None:
            nonlocal gone
            gone = (await receive())["type"] == "http.disconnect"
            limit.cancel()

        def begin_watching() -> None:
            nonlocal watcher
            watcher = asyncio.create_task(watch_for_disconnect())

        async def receive_and_watch() -> Message:
            nonlocal watcher
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body") and watcher is None:
                watcher = asyncio.get_running_loop().call_later(WATCH_AFTER, begin_watching)
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
            request_id, later = scope["state"]["request_id"], {"retry-after": "1"}
            await error_response(request_id, 503, "timeout", sentence, later)(scope, receive, send)


class BodyLimit(HttpMiddleware):
    """Refuses bodies above a size, announced or not.

    The rest of a refused body is read and dropped (within bounds): a client that is still
    sending would otherwise meet a reset connection instead of the answer.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        super().__init__(app)
        self.limit = limit

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
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
OPEN_PATHS = re.compile(r"/|/docs|/healthz|/readyz|/openapi\.json|/web/.*|/v1/session")
READ_PATHS = re.compile(
    # what a tool of /mcp needs is asked when the tool asks
    r"/mcp|/v1/(search|search/batch|facets|embeddings|traverse|explain|rerank|classify|items/scroll|items/count"
    r"|items/tags:propose|items/.+/similar)",
    re.DOTALL,
)
WRITE_PATHS = re.compile(r"/v1/items(/.*)?|/v1/jobs/[^/]+/cancel", re.DOTALL)
# queries of other people are not for everyone who may search
FEEDBACK_PATHS = re.compile(r"/v1/feedback(/.*)?", re.DOTALL)
ADMIN_PATHS = re.compile(r"/v1/snapshots(/.*)?", re.DOTALL)


def required_scope(method: str, path: str) -> KeyScope | None:
    """The scope that a request needs, None for none. A path that is not listed needs admin."""
    # the routes of a named collection need what their short forms need
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


KEY_COOKIE = "multifold-key"  # set by the page for its visit
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_BODY_TYPES = ("", "application/json", "multipart/form-data")  # "": no body


class OriginGuard(HttpMiddleware):
    """Refuses what a page of another site makes a browser send, where no key tells who is asking.

    With `hosts`, a request must call the service by one of these names or by one of this machine's own: else
    a page could call it by a name of its own that leads here.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]) -> None:
        super().__init__(app)
        self._hosts, self._origins = hosts, origins

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        answer = self.app if refusal is None else error_response(scope["state"]["request_id"], *refusal)
        await answer(scope, receive, send)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str, str] | None:
        """The status, code and sentence for a request that is refused."""
        host, origin = headers.get("host", ""), headers.get("origin")
        name = host_name(host)
        if host and self._hosts is not None and not (is_loopback(name) or name in self._hosts):
            sentence = f"this service is not known as {name!r}; its setting 'hosts' can name it"
            return 403, "unknown_host", sentence
        if method in SAFE_METHODS:
            return None
        if origin not in self._origins and not is_own_page(headers):
            sentence = "pages of other sites may change nothing here; the setting 'cors' can name them"
            return 403, "foreign_origin", sentence
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if origin is None and kind not in OWN_BODY_TYPES and required_scope(method, path) != "read":
            return 415, "unsupported_media_type", "send application/json or multipart/form-data"
        return None


def is_own_page(headers: Headers) -> bool:
    """Whether a request comes from our own page, or from no page at all."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    return origin.partition("://")[2] == headers.get("host", "").lower()


@lru_cache
def host_name(host: str) -> str:
    """The name in a Host header, without its port; nothing if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


@lru_cache
def is_loopback(name: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def presented_key(method: str, sent: Headers) -> str:
    """The key of a request: in a header, or in the cookie of our own page, which no other page may use."""
    scheme, _, token = sent.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if "x-api-key" in sent:
        return sent["x-api-key"]
    if method not in SAFE_METHODS and not is_own_page(sent):
        return ""
    return unquote(cookie_parser(sent.get("cookie", "")).get(KEY_COOKIE, ""))


class ApiKeyGuard(HttpMiddleware):
    """Lets requests through that have the right key. With `open_read`, reading needs none."""

    def __init__(self, app: ASGIApp, keys: Sequence[ApiKey], *, open_read: bool) -> None:
        super().__init__(app)
        self._keys, self._open_read = keys, open_read

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        needed, sent = required_scope(scope["method"], scope["path"]), Headers(scope=scope)
        key = find_key(self._keys, presented_key(scope["method"], sent))
        key_name.set(key.name if key else None)
        if needed is None or (needed == "read" and self._open_read) or (key and key.may(needed)):
            await self.app(scope, receive, send)
            return
        if key is not None:
            status, code, headers = 403, "forbidden", {}
            sentence = f"the key {key.name} may {key.scope}; this needs {needed}"
        else:
            status, code, headers = 401, "unauthorized", {"www-authenticate": "Bearer"}
            sentence = f"this needs a key that may {needed}: send it as 'Authorization: Bearer KEY'"
        response = error_response(scope["state"]["request_id"], status, code, sentence, headers)
        await response(scope, receive, send)
