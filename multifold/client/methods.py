"""Methods that are written once, for programs that wait and for programs that await.

A method describes the `Call` that it makes, or the `Pages` that it reads. A `ServiceConnection` answers with
the result, or an iterator; an `AsyncServiceConnection` with what is awaited, or read by `async for`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper, wraps
from inspect import Signature, signature
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from multifold.client.calls import Call, Pages
from multifold.client.transport import AsyncServiceConnection, ServiceConnection

P = ParamSpec("P")
T = TypeVar("T")
Sync = TypeVar("Sync")
Async = TypeVar("Async")
Fields = ParamSpec("Fields")
Asker = TypeVar("Asker")
First = TypeVar("First")
Asked = TypeVar("Asked")
Result = TypeVar("Result")


class ClientMethod(Generic[P, Sync, Async]):
    """A method of both clients."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Any]) -> None:
        self._describe = describe
        update_wrapper(self, describe)

    def __call__(self, client: Any, /, *values: P.args, **fields: P.kwargs) -> Any:  # noqa: ANN401 (as `__get__`)
        return client._answer(self._describe(client, *values, **fields))

    @overload
    def __get__(self, client: None, owner: object) -> "ClientMethod[P, Sync, Async]": ...
    @overload
    def __get__(self, client: ServiceConnection, owner: object) -> Callable[P, Sync]: ...
    @overload
    def __get__(self, client: AsyncServiceConnection, owner: object) -> Callable[P, Async]: ...
    def __get__(self, client: object, owner: object) -> Any:
        return self if client is None else MethodType(self, client)


def service_method(describe: Callable[Concatenate[Any, P], Call[T]]) -> ClientMethod[P, T, Awaitable[T]]:
    """Makes a method of both clients of one that describes a call."""
    return ClientMethod(describe)


def paged_method(
    describe: Callable[Concatenate[Any, P], Pages[T]],
) -> ClientMethod[P, Iterator[T], AsyncIterator[T]]:
    """Makes a method of both clients of one that describes pages."""
    return ClientMethod(describe)


class takes_fields(Generic[Fields, Asked]):  # noqa: N801 (a decorator)
    """Makes a method that is called with the fields of a body of one that is called with the body.

    The body is the last argument of the method, which may have one before.
    """

    def __init__(self, body: Callable[Fields, Asked]) -> None:
        self._body = body

    @overload
    def __call__(
        self, method: Callable[[Asker, Asked], Result]
    ) -> Callable[Concatenate[Asker, Fields], Result]: ...
    @overload
    def __call__(
        self, method: Callable[[Asker, First, Asked], Result]
    ) -> Callable[Concatenate[Asker, First, Fields], Result]: ...
    def __call__(self, method: Callable[..., Result]) -> Callable[..., Result]:
        asker, *first, last = signature(method).parameters.values()
        names = [one.name for one in first]

        @wraps(method)
        def call(*values: Any, **fields: Any) -> Result:  # noqa: ANN401
            client, *others = values
            before = dict(zip(names, others, strict=False))
            before |= {name: fields.pop(name) for name in names if name in fields}
            return method(client, **before, **{last.name: self._body(*others[len(first) :], **fields)})

        of_body = signature(self._body).parameters.values()
        vars(call)["__signature__"] = Signature([asker, *first, *of_body])
        return call
