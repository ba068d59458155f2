"""What is asked of a service, apart from how it is sent: a request, and how its answer is read."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from multifold.errors import MultifoldError
from multifold.wire.reading import read_json

T = TypeVar("T")
U = TypeVar("U")
Address = TypeVar("Address", bound="CollectionAddress")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read; what does not fit raises KeyError, TypeError or ValueError."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    content: Mapping[str, Any] = field(default_factory=dict)

    def then(self, change: Callable[[T], U]) -> "Call[U]":
        """The same request, with something made of its answer."""
        return Call(self.method, self.path, lambda response: change(self.read(response)), self.content)


def ask(answer: type[T], method: str, path: str, **content: Any) -> Call[T]:  # noqa: ANN401 (httpx has its own)
    """A request that is answered with JSON of a type."""
    return Call(method, path, lambda response: read_json(answer, response.json()), content)


@dataclass(frozen=True)
class Pages(Generic[T]):
    """Requests for one page after the other: `page` takes where one begins, and tells where the next does."""

    page: Callable[[str | None], Call[tuple[Sequence[T], str | None]]]


class CollectionAddress:
    """Where a service answers about one collection."""

    _at: str

    def collection(self: Address, name: str) -> Address:
        """The same service, asked about one collection, by its name or an alias. Shares the connections."""
        other = copy(self)
        other._at = collection_path(name)
        return other

    def _item(self, item: str) -> str:
        return f"{self._at}/items/{path_segment(item)}"


def path_segment(name: str) -> str:
    """An id or a name as one segment of an address, whatever it holds."""
    if name in ("", ".", ".."):
        raise MultifoldError(f"an address cannot hold the id {name!r}; choose another")
    return quote(name, safe="")


def collection_path(collection: str | None) -> str:
    """Where the routes of a collection are; without a name, those of the default one."""
    return "/v1" if collection is None else f"/v1/collections/{path_segment(collection)}"
