"""HTTP connections to one service, for programs that wait and for programs that await."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol, TypeVar

import httpx

from multifold.client.calls import Call, Pages, collection_path, path_segment
from multifold.errors import MultifoldError

T = TypeVar("T")
Asked = TypeVar("Asked", bound="ServiceAddress")
Written = TypeVar("Written", bound="HasVersion")
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


class ServiceError(MultifoldError):
    """The service refused a request or did not answer."""

    def __init__(
        self,
        message: str,
        code: str,
        status: int | None = None,  # of HTTP; None without an answer
        request_id: str | None = None,
        retry_after: float | None = None,  # seconds, where the service is busy
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after


class HasVersion(Protocol):
    """An answer that says which version of the collection it is of."""

    @property
    def version(self) -> int: ...


class ServiceAddress:
    """A service, the key that it is asked with, and the collection that it is asked about."""

    def __init__(self, url: str, api_key: str | None, collection: str | None) -> None:
        self.url = url
        self._at = collection_path(collection)
        self._headers = _key_header(api_key)
        self._written: dict[str, int] = {}  # the version of our last change, by the path of its collection

    def with_key(self: Asked, api_key: str | None) -> Asked:
        """The same service, asked with another key. Shares the connections."""
        other = copy(self)
        other._headers = _key_header(api_key)
        return other

    def collection(self: Asked, name: str) -> Asked:
        """The same service, asked about one collection, by its name or an alias. Shares the connections."""
        other = copy(self)
        other._at = collection_path(name)
        return other

    def _noted(self, written: Written) -> Written:
        """The answer to a change, whose version later searches of a session have to see."""
        self._written[self._at] = max(written.version, self._written.get(self._at, 0))
        return written

    def _item(self, item: str) -> str:
        return f"{self._at}/items/{path_segment(item)}"

    def _read(self, call: Call[T], response: httpx.Response) -> T:
        if not (response.is_success or (call.each and _tells(response, call.each))):
            raise _error_of(response)
        try:
            return call.read(response)
        except UNREADABLE as error:
            raise ServiceError(
                f"{self.url} answered something that this client does not understand ({error!r}); "
                "is it a Multifold service of this version?",
                "bad_answer",
                response.status_code,
            ) from error


class ServiceConnection(ServiceAddress):
    """Connections to one service. Safe to share between threads."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 60.0,
        api_key: str | None = None,
        collection: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, api_key, collection)
        with _address_errors(url):
            self._http = httpx.Client(base_url=url, timeout=timeout, transport=transport)

    def __enter__(self: Asked) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _answer(self, described: Call[Any] | Pages[Any]) -> Any:  # noqa: ANN401 (as it is described)
        """What a call is answered with, or an iterator over pages."""
        return self._perform(described) if isinstance(described, Call) else self._iterate(described)

    def _perform(self, call: Call[T]) -> T:
        with _connection_errors(self.url):
            response = self._http.request(call.method, call.path, headers=self._headers, **call.content)
        return self._read(call, response)

    def _iterate(self, pages: Pages[T]) -> Iterator[T]:
        found, after = self._perform(pages.page(None))
        yield from found
        while after is not None:
            found, after = self._perform(pages.page(after))
            yield from found

    def _stream(self, path: str) -> Iterator[bytes]:
        with (
            _connection_errors(self.url),
            self._http.stream("GET", path, headers=self._headers) as response,
        ):
            if not response.is_success:
                response.read()
                raise _error_of(response)
            yield from response.iter_bytes()


class AsyncServiceConnection(ServiceAddress):
    """Connections to one service, for one event loop."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 60.0,
        api_key: str | None = None,
        collection: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, api_key, collection)
        with _address_errors(url):
            self._http = httpx.AsyncClient(base_url=url, timeout=timeout, transport=transport)

    async def __aenter__(self: Asked) -> Asked:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    def _answer(self, described: Call[Any] | Pages[Any]) -> Any:  # noqa: ANN401 (as it is described)
        """Something to await, or an asynchronous iterator over pages."""
        return self._perform(described) if isinstance(described, Call) else self._iterate(described)

    async def _perform(self, call: Call[T]) -> T:
        with _connection_errors(self.url):
            response = await self._http.request(call.method, call.path, headers=self._headers, **call.content)
        return self._read(call, response)

    async def _iterate(self, pages: Pages[T]) -> AsyncIterator[T]:
        found, after = await self._perform(pages.page(None))
        for one in found:
            yield one
        while after is not None:
            found, after = await self._perform(pages.page(after))
            for one in found:
                yield one

    async def _stream(self, path: str) -> AsyncIterator[bytes]:
        with _connection_errors(self.url):
            async with self._http.stream("GET", path, headers=self._headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise _error_of(response)
                async for piece in response.aiter_bytes():
                    yield piece


@contextmanager
def _address_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.InvalidURL as error:
        raise ServiceError(f"{url!r} is no address of a service: {error}", "bad_url") from error


@contextmanager
def _connection_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise ServiceError(f"{url} did not answer in time; try again, or wait longer", "timeout") from error
    except httpx.HTTPError as error:
        raise ServiceError(f"{url} cannot be reached ({error}); is it running?", "unreachable") from error


def _key_header(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"authorization": f"Bearer {api_key}"}


def _tells(response: httpx.Response, field: str) -> bool:
    """Whether a refusal of several things says what became of each."""
    try:
        return field in response.json()
    except UNREADABLE:
        return False


def _error_of(response: httpx.Response) -> ServiceError:
    """The service's own sentence; a proxy in between may have another shape."""
    status = response.status_code
    later = response.headers.get("retry-after", "")
    retry_after = float(later) if later.isdecimal() else None
    try:
        error = response.json()["error"]
        return ServiceError(error["message"], error["code"], status, error.get("request_id"), retry_after)
    except UNREADABLE:
        sentence = f"{response.request.url} answered {status} {response.reason_phrase}"
        return ServiceError(sentence, f"http_{status}", status, retry_after=retry_after)
