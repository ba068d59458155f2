"""HTTP connections to one service: sends requests, parses answers, and raises ServiceError on failure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from multifold.errors import MultifoldError
from multifold.wire.reading import read_json

T = TypeVar("T")


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
        self.message, self.code, self.status, self.request_id = message, code, status, request_id
        self.retry_after = retry_after


class ServiceConnection:
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
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self.url = url
        self._at = collection_path(collection)
        try:
            self._http = httpx.Client(base_url=url, timeout=timeout, headers=headers, transport=transport)
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url!r} is no address of a service: {error}", "bad_url") from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _ask(self, answer: type[T], method: str, path: str, **content: Any) -> T:  # noqa: ANN401 (httpx has its own)
        response = self._send(method, path, **content)
        try:
            return read_json(answer, response.json())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServiceError(
                f"{self.url} answered something that this client does not understand ({error!r}); "
                "is it a Multifold service of this version?",
                "bad_answer",
                response.status_code,
            ) from error

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:  # noqa: ANN401 (httpx has its own)
        with _connection_errors(self.url):
            response = self._http.request(method, path, **content)
        if not response.is_success:
            raise _error_of(response)
        return response

    def _stream(self, path: str) -> Iterator[bytes]:
        with _connection_errors(self.url), self._http.stream("GET", path) as response:
            if not response.is_success:
                response.read()
                raise _error_of(response)
            yield from response.iter_bytes()


@contextmanager
def _connection_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise ServiceError(f"{url} did not answer in time; try again, or wait longer", "timeout") from error
    except httpx.HTTPError as error:
        raise ServiceError(f"{url} cannot be reached ({error}); is it running?", "unreachable") from error


def path_segment(name: str) -> str:
    """An id or a name as one segment of an address, whatever it holds."""
    if name in ("", ".", ".."):
        raise MultifoldError(f"an address cannot hold the id {name!r}; choose another")
    return quote(name, safe="")


def collection_path(collection: str | None) -> str:
    """Where the routes of a collection are; without a name, those of the default one."""
    return "/v1" if collection is None else f"/v1/collections/{path_segment(collection)}"


def _error_of(response: httpx.Response) -> ServiceError:
    """The service's own sentence; a proxy in between may have another shape."""
    status = response.status_code
    later = response.headers.get("retry-after", "")
    retry_after = float(later) if later.isdecimal() else None
    try:
        error = response.json()["error"]
        return ServiceError(error["message"], error["code"], status, error.get("request_id"), retry_after)
    except (KeyError, TypeError, ValueError, AttributeError):
        sentence = f"{response.request.url} answered {status} {response.reason_phrase}"
        return ServiceError(sentence, f"http_{status}", status, retry_after=retry_after)
