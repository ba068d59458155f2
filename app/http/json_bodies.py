"""Bodies of JSON of which everybody reads the same."""

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


class JsonRequest(Request):
    """A request whose body is read by `parse_json`."""

    async def json(self) -> Any:  # noqa: ANN401 (as Starlette has it)
        return parse_json(await self.body())


class JsonRoute(APIRoute):
    """A route that reads bodies so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return handle_json


def parse_json(raw: bytes | str) -> Any:  # noqa: ANN401 (any JSON)
    """A value of JSON; a key that stands twice in one object is refused."""
    return json.loads(raw, object_pairs_hook=_object)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise HTTPException(422, f"the key {twice[:40]!r} stands twice in one object")
    return found
