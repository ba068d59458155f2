"""The typed REST client.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)
"""

import json
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from multifold import answers, uploads
from multifold.answers import SearchResult, Stored, Written
from multifold.errors import MultifoldError
from multifold.types import Pool, Side
from multifold.uploads import File, Part, Picture

T = TypeVar("T")


class ServiceError(MultifoldError):
    """The service said no, or nothing. `status` is the HTTP status, None where there was no answer."""

    def __init__(
        self, message: str, code: str, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.status, self.request_id = message, code, status, request_id


class Client:
    """Talks to one service. Safe to share between threads; close it, or use it in a `with`."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        timeout: float = 60.0,
        api_key: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self.url = url
        try:
            self._http = httpx.Client(base_url=url, timeout=timeout, headers=headers, transport=transport)
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url!r} is no address of a service: {error}", "bad_url") from error

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def search(
        self,
        *,
        text: str | None = None,
        image: Picture | None = None,
        mesh: File | None = None,
        mesh_format: str | None = None,
        target: Side = "shape",
        limit: int = 10,
        pool: Pool = "mean",
    ) -> SearchResult:
        """Find items by exactly one text, picture or mesh. Bytes of a mesh need its format, such as 'glb'."""
        if sum(clue is not None for clue in (text, image, mesh)) != 1:
            raise MultifoldError("ask with exactly one of text, image and mesh")
        options = {"target": target, "limit": limit, "pool": pool}
        if text is not None:
            return self._ask(answers.search_result, "POST", "/v1/search", json={"text": text, **options})
        clue = _mesh(mesh, mesh_format) if image is None else [uploads.image("image", image)]
        fields = [uploads.field(name, value) for name, value in options.items()]
        return self._ask(answers.search_result, "POST", "/v1/search", files=[*fields, *clue])

    def upsert(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        texts: Sequence[str] = (),
        images: Sequence[Picture] = (),
        mesh: File | None = None,
        mesh_format: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> Written:
        """Write an item in place of its former self."""
        if isinstance(texts, str):
            raise MultifoldError("texts is a list of texts; a single one goes into a list of its own")
        parts = [uploads.field("texts", text) for text in texts]
        parts += [uploads.image("images", image) for image in images]
        parts += _mesh(mesh, mesh_format)
        parts.append(uploads.field("payload", json.dumps(payload or {})))
        return self._ask(answers.written, "PUT", _item(id), files=parts)

    def get(self, id: str) -> Stored:  # noqa: A002 (the service's word)
        """An item with all that was seen and said of it."""
        return self._ask(answers.stored, "GET", _item(id))

    def delete(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Remove an item; gives how many were removed, 0 or 1."""
        return self._ask(lambda raw: int(raw["removed"]), "DELETE", _item(id))

    def picture(self, url: str) -> bytes:
        """The bytes of a view or photo, by the `url` of an observation."""
        if not url.startswith("/") or url.startswith("//"):
            raise MultifoldError(f"{url!r} is not the url of an observation; those begin with /v1/items/")
        return self._send("GET", url).content

    def info(self) -> Mapping[str, Any]:
        """What runs there: its version, bundle, collection and limits."""
        return self._ask(dict, "GET", "/v1/info")

    def ready(self) -> bool:
        """Whether the service answers queries now."""
        try:
            self._send("GET", "/readyz")
        except ServiceError:
            return False
        return True

    def _ask(
        self,
        read: Callable[[Mapping[str, Any]], T],
        method: str,
        path: str,
        **content: Any,  # noqa: ANN401
    ) -> T:
        response = self._send(method, path, **content)
        try:
            return read(response.json())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServiceError(
                f"{self.url} answered something that this client does not understand ({error!r}); "
                "is it a Multifold service of this version?",
                "bad_answer",
                response.status_code,
            ) from error

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:  # noqa: ANN401 (httpx has its own)
        try:
            response = self._http.request(method, path, **content)
        except httpx.TimeoutException as error:
            raise ServiceError(
                f"{self.url} did not answer in time; try again, or wait longer", "timeout"
            ) from error
        except httpx.HTTPError as error:
            raise ServiceError(
                f"{self.url} cannot be reached ({error}); is it running?", "unreachable"
            ) from error
        if not response.is_success:
            raise _refusal(response)
        return response


def _refusal(response: httpx.Response) -> ServiceError:
    """The service's own sentence; a proxy in between may have another shape."""
    status = response.status_code
    try:
        error = response.json()["error"]
        return ServiceError(error["message"], error["code"], status, error.get("request_id"))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ServiceError(
            f"{response.request.url} answered {status} {response.reason_phrase}", f"http_{status}", status
        )


def _item(id: str) -> str:  # noqa: A002 (the service's word)
    if id in ("", ".", ".."):
        raise MultifoldError(f"an address cannot hold the id {id!r}; choose another")
    return f"/v1/items/{quote(id, safe='')}"


def _mesh(mesh: File | None, mesh_format: str | None) -> list[Part]:
    if mesh is None:
        return []
    told = [] if mesh_format is None else [uploads.field("mesh_format", mesh_format)]
    return [uploads.file("mesh", mesh), *told]
