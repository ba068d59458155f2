"""Which collection a request is for: /v1/collections/NAME/search is /v1/search of that collection."""

import re

from multifold.errors import needs_extra

with needs_extra("serve"):
    from starlette.types import ASGIApp, Receive, Scope, Send

OF_ONE = (
    "search",
    "items",
    "facets",
    "feedback",
    "embeddings",
    "models",
    "snapshots",
    "info",
    "traverse",
    "explain",
)
NAMED = re.compile(rf"/v1/collections/([^/]+)(/(?:{'|'.join(OF_ONE)})(?:/.*)?)", re.DOTALL)


class Named:
    """Takes the name out of the path, before anybody asks what the path needs."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        found = NAMED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is not None:
            scope = {**scope, "path": f"/v1{found[2]}"}
            scope["state"] = {**scope["state"], "collection": found[1]}
        await self.app(scope, receive, send)
