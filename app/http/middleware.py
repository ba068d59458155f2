"""ASGI middleware for every request: its id, its time, its size, and the answer to an unexpected error."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Iterator
from itertools import count

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.concurrency.clients import Refusals, client, client_at
from app.errors import ApiError, error_response
from app.operations import logs
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
PIECE_BYTES = 1 << 20  # of an answer that are written at once
STALLED_SECONDS = 60.0  # for the client to take a piece; an event that says nothing is sent every 15 s
MOST_HEADER_BYTES, MOST_HEADERS = 32_000, 100  # of names and values, and how many
TOO_MANY = 429
CLIENT_LEFT = 499  # the status of requests whose client left, as nginx has it
WATCH_AFTER = 0.05  # seconds that a request takes before it is worth a task that sees its client leave
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
        self._refusals = Refusals()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        wanted = headers.get("x-request-id", "")
        request_id = wanted if CLIENT_REQUEST_ID.fullmatch(wanted) else next(self._ids)
        scope.setdefault("state", {})["request_id"] = request_id
        logs.request_id.set(request_id)
        client.set(client_at((scope.get("client") or ("", 0))[0]))
        start = time.perf_counter()
        status = CLIENT_LEFT

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = [pair for pair in message.get("headers", ()) if pair[0] != b"x-request-id"]
                names = {name for name, _ in given}
                own = [pair for pair in SECURITY_HEADERS.items() if pair[0] not in names]
                message["headers"] = [*given, *own, (b"x-request-id", request_id.encode())]
                if status == TOO_MANY:
                    await self._refusals.hold()
            await send(message)

        telemetry: Telemetry = scope["app"].state.collections.workers.telemetry
        with telemetry.tracing.request(scope["method"], headers, request_id) as answered:
            try:
                await self.app(scope, receive, send_with_headers)
            finally:
                route = scope.get("short_path", getattr(scope.get("route"), "path", "none"))
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
            await error_response(ApiError(500, "internal", sentence), request_id)(scope, receive, send)


class RequestTimeout(HttpMiddleware):
    """Cancels a request that takes too long, or whose client has left. A change that has begun goes on.

    An answer is written in pieces, without end as long as the client takes each of them in time. So a client
    that reads slowly keeps an answer in memory once, and not for ever.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        super().__init__(app)
        self.seconds = seconds

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = gone = over = False
        task = asyncio.current_task()
        assert task is not None
        watcher: asyncio.TimerHandle | asyncio.Task[None] | None = None

        async def watch_for_disconnect() -> None:
            nonlocal gone
            gone = (await receive())["type"] == "http.disconnect"
            if not over:
                task.cancel()

        def begin_watching() -> None:
            nonlocal watcher
            watcher = asyncio.create_task(watch_for_disconnect())

        async def receive_and_watch() -> Message:
            nonlocal watcher
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body") and watcher is None:
                watcher = asyncio.get_running_loop().call_later(WATCH_AFTER, begin_watching)
            return message

        async def send_in_time(message: Message) -> None:
            nonlocal started
            started = True
            for piece in split(message):
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time() + STALLED_SECONDS)
                await send(piece)

        try:
            async with asyncio.timeout(self.seconds) as limit:
                try:
                    await self.app(scope, receive_and_watch, send_in_time)
                except ClientDisconnect:
                    gone = True
                finally:
                    over = True
                    if watcher is not None:
                        watcher.cancel()
        except asyncio.CancelledError:
            if not gone:
                raise
            task.uncancel()
        except TimeoutError:
            if not limit.expired():
                raise
        if limit.expired() and not (started or gone):
            sentence = f"it was given up after {self.seconds:g} s; try again, or ask for less"
            error = ApiError(503, "timeout", sentence, retry_after=1)
            await error_response(error, scope["state"]["request_id"])(scope, receive, send)


def split(message: Message) -> Iterator[Message]:
    """A part of an answer, or several in its place if it is long."""
    body = message.get("body", b"")
    if len(body) <= PIECE_BYTES:
        yield message
        return
    for begin in range(0, len(body), PIECE_BYTES):
        end = begin + PIECE_BYTES
        more = end < len(body) or message.get("more_body", False)
        yield {**message, "body": body[begin:end], "more_body": more}


class HeaderCheck(HttpMiddleware):
    """Refuses headers above a size, and two names of the service in one request: proxies read either."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, answer = scope["headers"], self.app
        if len(headers) > MOST_HEADERS:
            error = ApiError(431, "too_large", f"a request has {MOST_HEADERS} headers at most")
            answer = error_response(error, scope["state"]["request_id"])
        elif sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            error = ApiError(431, "too_large", f"the headers have more than {MOST_HEADER_BYTES:,} bytes")
            answer = error_response(error, scope["state"]["request_id"])
        elif sum(name == b"host" for name, _ in headers) > 1:
            error = ApiError(400, "bad_request", "the request has two headers 'Host'; which one is meant?")
            answer = error_response(error, scope["state"]["request_id"])
        await answer(scope, receive, send)


class BodyLimit(HttpMiddleware):
    """Refuses bodies above a size, announced or not. The server drops the rest of what is still sent."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        super().__init__(app)
        self.limit = limit

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = Headers(scope=scope).get("content-length", "0")
        too_large = announced.isdecimal() and int(announced) > self.limit
        read = 0

        async def receive_limited() -> Message:
            nonlocal read
            message = {"type": "http.request"} if too_large else await receive()
            read += len(message.get("body", b""))
            if too_large or read > self.limit:
                raise HTTPException(
                    413, f"the request is larger than {self.limit:,} bytes; send less at once"
                )
            return message

        await self.app(scope, receive_limited, send)
