"""What every request gets: an id, safe headers, a limit of size, and no secrets in an error."""

import asyncio
import socket

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope, Send

from app.http import middleware
from app.http.middleware import RequestTimeout, split
from tests.app.answers import refused
from tests.app.house import LONGEST, House
from tests.waiting import PATIENCE

JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=x"}
HEAD = b'--x\r\nContent-Disposition: form-data; name="mesh"; filename="a.glb"\r\n\r\n'
MIB = 1 << 20


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/", "/web/app.js", "/v1/items/red-box/views/0"])
def test_every_answer_has_safe_headers_and_an_id(shop: House, path: str) -> None:
    headers = shop.client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert len(headers["x-request-id"]) == 32
    assert headers["x-request-id"] != shop.client.get(path).headers["x-request-id"]
    assert "access-control-allow-origin" not in headers


def test_a_request_keeps_the_id_that_its_sender_gave(shop: House) -> None:
    given = shop.client.get("/nothing", headers={"x-request-id": "trace-7"})
    refused(given, 404, "not_found")
    assert given.headers["x-request-id"] == "trace-7"
    invented = shop.client.get("/healthz", headers={"x-request-id": "not an id"})
    assert invented.headers["x-request-id"] != "not an id"


def test_what_nobody_caught_is_a_500_without_secrets(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the password is sesame")

    monkeypatch.setattr(type(shop.service.collection), "search_many", broken)
    response = shop.search(text="a red box")
    refused(response, 500, "internal", "something broke on our side")
    assert "sesame" not in response.text
    assert response.headers["x-content-type-options"] == "nosniff"
    monkeypatch.undo()
    assert shop.best(text="a red box") == "red-box"


def test_two_hosts_and_headers_above_32_kilobytes_are_refused(shop: House) -> None:
    port = shop.client.base_url.port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n")
        assert raw.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
    assert shop.client.get("/v1/info", headers={"x-much": "x" * 30_000}).status_code == 200
    for much in ({"x-much": "x" * 32_000}, {f"x-{n}": "x" * 1_000 for n in range(32)}):
        refused(shop.client.get("/v1/info", headers=much), 431, "too_large", "32,000")
    many = [(f"x-{number}", "1") for number in range(5_000)]
    refused(shop.client.get("/v1/info", headers=many), 431, "too_large", "100 headers at most")


def test_a_body_of_20_megabytes_is_too_large(shop: House) -> None:
    junk = np.random.default_rng(0).bytes(20 * MIB)
    announced = shop.client.post("/v1/search", files={"mesh": ("a.glb", junk)})
    pieces = shop.client.post("/v1/search", content=(b"x" * 65536 for _ in range(320)), headers=JSON)
    form = (HEAD if part == 0 else b"x" * 65536 for part in range(321))
    for response in (announced, pieces, shop.client.post("/v1/search", content=form, headers=FORM)):
        refused(response, 413, "too_large", "16,777,216")
    assert shop.best(text="a red box") == "red-box"


START: Message = {"type": "http.response.start", "status": 200, "headers": []}


async def no_body() -> Message:
    return {"type": "http.request"}


def test_an_answer_ends_where_the_client_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "STALLED_SECONDS", 0.01)
    sent: list[str] = []

    async def send_for_ever(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        while True:
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})

    async def send(message: Message) -> None:
        if len(sent) == 3:
            await asyncio.Event().wait()  # nobody takes it
        sent.append(message["type"])

    timeout = RequestTimeout(send_for_ever, seconds=LONGEST)
    asyncio.run(asyncio.wait_for(timeout({"type": "http"}, no_body, send), PATIENCE))
    assert len(sent) == 3


def test_an_answer_that_is_taken_slowly_is_sent_to_its_end() -> None:
    """A snapshot may take longer than a request may take to begin its answer."""
    parts: list[Message] = []

    async def send_parts(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        for n in range(5):
            await send({"type": "http.response.body", "body": b"%d" % n, "more_body": n < 4})

    async def send(message: Message) -> None:
        await asyncio.sleep(0.02)
        parts.append(message)

    asyncio.run(RequestTimeout(send_parts, seconds=0.05).handle({"type": "http"}, no_body, send))
    assert b"".join(part.get("body", b"") for part in parts) == b"01234"


@pytest.mark.parametrize("length", [0, 1, MIB, MIB + 1, 3 * MIB + 5])
@pytest.mark.parametrize("more", [False, True])
def test_long_answers_are_written_in_pieces(length: int, more: bool) -> None:
    body = bytes(range(256)) * (length // 256 + 1)
    parts = [*split({"type": "http.response.body", "body": body[:length], "more_body": more})]
    assert b"".join(part["body"] for part in parts) == body[:length]
    assert all(len(part["body"]) <= MIB for part in parts)
    assert [part["more_body"] for part in parts] == [*[True] * (len(parts) - 1), more]


def test_an_answer_that_nobody_takes_is_in_memory_once() -> None:
    """The server takes a piece only when most of the one before is gone."""
    taken = 0

    async def send_whole(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"x" * 8 * MIB})

    async def send(message: Message) -> None:
        nonlocal taken
        if taken:
            await asyncio.Event().wait()
        taken += len(message.get("body", b""))

    async def wait_for_it() -> None:
        answering = RequestTimeout(send_whole, seconds=LONGEST).handle({"type": "http"}, no_body, send)
        task = asyncio.create_task(answering)
        await asyncio.sleep(0.05)
        task.cancel()

    asyncio.run(wait_for_it())
    assert taken == MIB
