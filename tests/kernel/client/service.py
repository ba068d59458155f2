"""A stand-in for the network: a service that gives one answer, and keeps what it was asked."""

import asyncio
import json
from collections.abc import Callable
from email import message_from_bytes
from typing import Any

import httpx

from multifold.client import AsyncClient, Client
from multifold.errors import MultifoldError

URL = "http://house:8000"


class Service:
    """Answers with JSON or bytes, whatever is asked."""

    def __init__(self, answer: object = None, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        if isinstance(self.answer, bytes):
            return httpx.Response(self.status, content=self.answer)
        return httpx.Response(self.status, json=self.answer)

    def client(self, **options: Any) -> Client:  # noqa: ANN401 (the client's own)
        return Client(URL, transport=httpx.MockTransport(self), **options)

    @property
    def json(self) -> Any:  # noqa: ANN401 (any JSON)
        """The body that was sent last."""
        return json.loads(self.asked[-1].content)

    @property
    def form(self) -> list[tuple[str, str | None, str, bytes]]:
        """Name, file name, type and content of each part of the form that was sent last."""
        request = self.asked[-1]
        head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = [one for one in message_from_bytes(head + request.content).walk() if not one.is_multipart()]
        told = [(dict(one.get_params(header="content-disposition") or []), one) for one in parts]
        return [
            (of["name"], of.get("filename"), one.get_content_type(), one.get_payload(decode=True))  # type: ignore[misc]
            for of, one in told
        ]


def both(
    answer: Callable[[httpx.Request], httpx.Response],
    ask: Callable[[Any], Any],
    **options: Any,  # noqa: ANN401 (the client's own)
) -> list[Any]:
    """What a method gives, or raises, of the client that waits and of the one that is awaited."""

    def waited() -> Any:  # noqa: ANN401
        with Client(URL, transport=httpx.MockTransport(answer), **options) as client:
            return ask(client)

    async def awaited() -> Any:  # noqa: ANN401
        async with AsyncClient(URL, transport=httpx.MockTransport(answer), **options) as client:
            return await ask(client)

    outcomes: list[Any] = []
    for asynchronous in (False, True):
        try:
            outcomes.append(asyncio.run(awaited()) if asynchronous else waited())
        except MultifoldError as error:
            outcomes.append(error)
    return outcomes
