"""The client for event loops: the same methods as the other client, and the same answers."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from multifold.client import AsyncClient, Client, ServiceError
from multifold.client.methods import ClientMethod
from multifold.errors import MultifoldError

ITEM: dict[str, object] = {"payload": {}, "observations": [], "files": []}
JOB = {"id": "j1", "kind": "rebuild", "collection": "main", "state": "running", "done": 3, "total": 9}
JOB |= {"errors": [], "result": {}, "created": "2026-01-01T00:00:00Z", "ended": None}


def client_of(answer: Callable[[httpx.Request], httpx.Response], api_key: str | None = None) -> AsyncClient:
    return AsyncClient("http://house:8000", api_key=api_key, transport=httpx.MockTransport(answer))


def test_both_clients_have_the_same_methods() -> None:
    public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
    assert public[0] == public[1]
    shared = [one for one in vars(AsyncClient).values() if inspect.isfunction(one)]
    once = [
        one for kind in AsyncClient.__mro__ for one in vars(kind).values() if isinstance(one, ClientMethod)
    ]
    assert len(once) > 30
    assert {one.__name__ for one in shared} == {"ready", "wait", "fetch_snapshot"}


def test_a_method_tells_of_itself() -> None:
    assert "takes the fields of a `Search`" in (Client.search.__doc__ or "")
    client = Client("http://house:8000")
    assert list(inspect.signature(client.count).parameters) == ["filter"]
    assert "text" in inspect.signature(Client.search).parameters


def test_pages_are_read_as_they_are_needed() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.read())
        first = b"after" not in asked[-1]
        items = [{"id": f"{len(asked)}-{n}", **ITEM} for n in range(2)]
        return httpx.Response(200, json={"items": items, "next": "1-1" if first else None})

    async def read() -> tuple[list[str], int]:
        async with client_of(answer) as client:
            pages = client.items(page=2)
            first = [(await anext(pages)).id, (await anext(pages)).id]
            asked_so_far = len(asked)
            return [*first, *[item.id async for item in pages]], asked_so_far

    assert asyncio.run(read()) == (["1-0", "1-1", "2-0", "2-1"], 1)


def test_failures_are_the_same_sentences() -> None:
    error = {"error": {"code": "not_found", "message": "there is no item", "request_id": "r"}}

    async def fail() -> None:
        async with client_of(lambda _: httpx.Response(404, json=error)) as client:
            assert not await client.ready()
            with pytest.raises(ServiceError, match="there is no item") as caught:
                await client.get("nobody")
            assert (caught.value.code, caught.value.status) == ("not_found", 404)
        async with client_of(lambda _: httpx.Response(200, json={"items": 3})) as client:
            with pytest.raises(ServiceError, match="does not understand"):
                [item async for item in client.items()]

    asyncio.run(fail())


def test_a_key_goes_with_each_request_and_can_be_another() -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"count": 3})

    async def count() -> None:
        async with client_of(answer, "first") as client:
            await client.count()
            await client.with_key("second").collection("shop").count()
            await client.with_key(None).count()

    asyncio.run(count())
    assert seen == ["Bearer first", "Bearer second", None]


def test_a_job_is_waited_for_and_given_up() -> None:
    states = iter(["running", "done"])

    def answer(_: httpx.Request) -> httpx.Response:
        state = next(states, "running")
        ended = "2026-01-01T00:00:01Z" if state == "done" else None
        return httpx.Response(200, json={"job": {**JOB, "state": state, "ended": ended}})

    async def wait() -> None:
        async with client_of(answer) as client:
            assert (await client.wait("j1", 0.01)).state == "done"
            with pytest.raises(MultifoldError, match=r"rebuild j1 of main is running after 0\.05 s, 3 of 9"):
                await client.wait("j1", 0.01, limit=0.05)

    asyncio.run(wait())


def test_a_snapshot_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "gone" in request.url.path:
            return httpx.Response(404, json={"error": {"code": "not_found", "message": "no snapshot"}})
        return httpx.Response(200, content=b"all of it")

    async def fetch() -> None:
        async with client_of(answer) as client:
            written = await client.fetch_snapshot("new.tar", tmp_path / "here.tar")
            assert written.read_bytes() == b"all of it"
            with pytest.raises(MultifoldError, match="there already"):
                await client.fetch_snapshot("new.tar", tmp_path / "here.tar")
            with pytest.raises(ServiceError, match="no snapshot"):
                await client.fetch_snapshot("gone.tar", tmp_path / "gone.tar")

    asyncio.run(fetch())
    assert [path.name for path in tmp_path.iterdir()] == ["here.tar"]
