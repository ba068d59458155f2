"""What is asked of a service, apart from how it is sent: a request, and how its answer is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from multifold.client.bodies import to_form, to_json
from multifold.errors import MultifoldError
from multifold.wire.messages import Body
from multifold.wire.reading import read_json

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read; what does not fit raises KeyError, TypeError or ValueError."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    content: Mapping[str, Any] = field(default_factory=dict)
    each: str | None = None  # what an answer has of each of several things, also where all were refused

    def then(self, change: Callable[[T], U]) -> "Call[U]":
        """The same request, with something made of its answer."""
        return Call(
            self.method, self.path, lambda response: change(self.read(response)), self.content, self.each
        )


@dataclass(frozen=True)
class Pages(Generic[T]):
    """Requests for one page after the other: `page` takes where one begins, and tells where the next does."""

    page: Callable[[str | None], Call[tuple[Sequence[T], str | None]]]


def ask(
    answer: type[T],
    method: str,
    path: str,
    body: Body | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    each: str | None = None,
) -> Call[T]:
    """A request with a body in JSON, if there is one, that is answered with JSON of a type."""
    content: dict[str, Any] = {} if body is None else {"json": to_json(body)}
    if params is not None:
        content["params"] = {name: value for name, value in params.items() if value is not None}
    return Call(method, path, lambda response: read_json(answer, response.json()), content, each)


def send_form(answer: type[T], method: str, path: str, body: Body, without: Sequence[str] = ()) -> Call[T]:
    """A request with a body as a form, that is answered with JSON of a type."""
    # a form without any part would be none
    parts = to_form(body, without) or [("payload", (None, "{}", None))]
    return Call(method, path, lambda response: read_json(answer, response.json()), {"files": parts})


def path_segment(name: str) -> str:
    """An id or a name as one segment of an address, whatever it holds."""
    if name in ("", ".", ".."):
        raise MultifoldError(f"an address cannot hold the id {name!r}; choose another")
    return quote(name, safe="")


def collection_path(collection: str | None) -> str:
    """Where the routes of a collection are; without a name, those of the default one."""
    return "/v1" if collection is None else f"/v1/collections/{path_segment(collection)}"
