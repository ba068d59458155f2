"""Who may do what, asked before the body is read: a key of the right scope, or a refusal."""

import re

from app.errors import answer
from app.keys import Key, Keys, Scope
from app.telemetry import who
from multifold.errors import needs_extra

with needs_extra("serve"):
    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as Connection

OPEN = re.compile(r"/|/healthz|/readyz|/openapi\.json|/web/.*")
READ = re.compile(
    r"/v1/(search|search/batch|facets|embeddings|traverse|explain|items/scroll|items/count|items/.+/similar)",
    re.DOTALL,
)
WRITE = re.compile(r"/v1/items(/.*)?|/v1/jobs/[^/]+/cancel", re.DOTALL)
OWN = re.compile(r"/v1/feedback(/.*)?", re.DOTALL)  # what people asked is not for all who may search
ADMIN = re.compile(r"/v1/snapshots(/.*)?", re.DOTALL)


def scope_of(method: str, path: str) -> Scope | None:
    """What a request needs; None: nothing. What is not listed needs the most."""
    if OPEN.fullmatch(path):
        return None
    if ADMIN.fullmatch(path):
        return "admin"
    if OWN.fullmatch(path):
        return "write"
    if method in ("GET", "HEAD") or (method == "POST" and READ.fullmatch(path)):
        return "read"
    return "write" if WRITE.fullmatch(path) else "admin"


class Guard:
    """Lets requests through that have the right key. With `open_read`, reading needs none."""

    def __init__(self, app: ASGIApp, keys: Keys, *, open_read: bool) -> None:
        self.app, self._keys, self._open_read = app, keys, open_read

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or not self._keys:
            await self.app(scope, receive, send)
            return
        needed = scope_of(scope["method"], scope["path"])
        key = self._keys.find(_presented(Headers(scope=scope)))
        who.set(key.name if key else None)
        if needed is None or (needed == "read" and self._open_read) or (key and key.may(needed)):
            await self.app(scope, receive, send)
            return
        response = _refusal(scope["state"]["request_id"], key, needed)
        await response(scope, receive, send)


def _refusal(request_id: str, key: Key | None, needed: Scope) -> Response:
    if key is not None:
        return answer(
            request_id, 403, "forbidden", f"the key {key.name} may {key.scope}; this needs {needed}"
        )
    sentence = f"this needs a key that may {needed}: send it as 'Authorization: Bearer KEY'"
    response = answer(request_id, 401, "unauthorized", sentence)
    response.headers["www-authenticate"] = "Bearer"
    return response


def _presented(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
