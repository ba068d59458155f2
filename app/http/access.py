"""Who may ask what: the scope that a request needs, its key, and the site that sent it."""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from app.concurrency.clients import client, key_name
from app.errors import ApiError, error_response
from app.http.middleware import HttpMiddleware
from app.operations.keys import ApiKey, KeyScope, find_key

COLLECTION_PREFIX = re.compile(r"/v1/collections/[^/]+(?=/)")
OPEN_PATHS = re.compile(r"/|/docs|/healthz|/readyz|/openapi\.json|/web/.*|/v1/session")
READ_PATHS = re.compile(
    # what a tool of /mcp needs is asked when the tool asks
    r"/mcp|/v1/(search|search/form|search/batch|facets|embeddings|traverse|explain|rerank|classify|items/scroll|items/count"
    r"|items/tags:propose|items/.+/similar)",
    re.DOTALL,
)
WRITE_PATHS = re.compile(r"/v1/items(/.*)?|/v1/jobs/[^/]+/cancel", re.DOTALL)
# queries of other people are not for everyone who may search
FEEDBACK_PATHS = re.compile(r"/v1/feedback(/.*)?", re.DOTALL)
ADMIN_PATHS = re.compile(r"/v1/snapshots(/.*)?", re.DOTALL)
KEY_COOKIE = "multifold-key"  # set by the page for its visit
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_BODY_TYPES = ("", "application/json", "multipart/form-data")  # "": no body


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


class OriginGuard(HttpMiddleware):
    """Refuses what a page of another site makes a browser send, where no key tells who is asking.

    With `hosts`, a request must call the service by one of these names or by one of this machine's own: else
    a page could call it by a name of its own that leads here.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]) -> None:
        super().__init__(app)
        self._hosts = hosts
        self._origins = origins

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app
        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            answer = error_response(refusal, scope["state"]["request_id"])
        await answer(scope, receive, send)

    def _refusal(self, method: str, path: str, headers: Headers) -> ApiError | None:
        host = headers.get("host", "")
        origin = headers.get("origin")
        name = host_name(host)
        if host and self._hosts is not None and not (is_loopback(name) or name in self._hosts):
            sentence = f"this service is not known as {name!r}; its setting 'hosts' can name it"
            return ApiError(403, "unknown_host", sentence)
        if method in SAFE_METHODS:
            return None
        if origin not in self._origins and not is_own_page(headers):
            sentence = "pages of other sites may change nothing here; the setting 'cors' can name them"
            return ApiError(403, "foreign_origin", sentence)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if origin is None and kind not in OWN_BODY_TYPES and required_scope(method, path) != "read":
            sentence = "send application/json or multipart/form-data"
            return ApiError(415, "unsupported_media_type", sentence)
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
        self._keys = keys
        self._open_read = open_read

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        needed = required_scope(scope["method"], scope["path"])
        sent = Headers(scope=scope)
        key = find_key(self._keys, presented_key(scope["method"], sent))
        if key is not None:
            client.set(key.name)
        key_name.set(key.name if key else None)
        if needed is None or (needed == "read" and self._open_read) or (key and key.may(needed)):
            await self.app(scope, receive, send)
            return
        if key is not None:
            headers = None
            error = ApiError(403, "forbidden", f"the key {key.name} may {key.scope}; this needs {needed}")
        else:
            headers = {"www-authenticate": "Bearer"}
            sentence = f"this needs a key that may {needed}: send it as 'Authorization: Bearer KEY'"
            error = ApiError(401, "unauthorized", sentence)
        await error_response(error, scope["state"]["request_id"], headers)(scope, receive, send)
