"""What the clients do of their own: readiness, the wait for a job, and a snapshot as a file."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from multifold.client import AsyncClient, Client, ServiceError
from multifold.errors import MultifoldError
from tests.kernel.client.service import URL, Service

JOB = {"id": "j1", "kind": "rebuild", "collection": "main", "state": "running", "done": 3, "total": 9}
JOB |= {"errors": [], "result": {}, "created": "2026-01-01T00:00:00Z", "ended": None}
GIVEN_UP = r"rebuild j1 of main is running after 0\.05 s, 3 of 9 done"


def test_ready_is_yes_or_no() -> None:
    service = Service({"status": "ok"})

    async def awaited() -> bool:
        async with service.async_client() as client:
            return await client.ready()

    for status, ready in ((200, True), (503, False)):
        service.status = status
        with service.client() as client:
            assert client.ready() is asyncio.run(awaited()) is ready
    assert service.asked[0].url.path == "/readyz"


def jobs() -> Callable[[httpx.Request], httpx.Response]:
    """A job that is done at the second look, then one that runs without an end."""
    states = iter(["running", "done"])

    def answer(_: httpx.Request) -> httpx.Response:
        state = next(states, "running")
        ended = "2026-01-01T00:00:01Z" if state == "done" else None
        return httpx.Response(200, json={"job": {**JOB, "state": state, "ended": ended}})

    return answer


def test_a_job_is_waited_for_and_given_up() -> None:
    async def awaited() -> None:
        async with AsyncClient(URL, transport=httpx.MockTransport(jobs())) as client:
            assert (await client.wait("j1", 0.01)).state == "done"
            with pytest.raises(MultifoldError, match=GIVEN_UP):
                await client.wait("j1", 0.01, limit=0.05)

    asyncio.run(awaited())
    with Client(URL, transport=httpx.MockTransport(jobs())) as client:
        assert client.wait("j1", 0.01).state == "done"
        with pytest.raises(MultifoldError, match=GIVEN_UP):
            client.wait("j1", 0.01, limit=0.05)


def test_a_snapshot_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "gone" in request.url.path:
            return httpx.Response(404, json={"error": {"code": "not_found", "message": "no snapshot"}})
        return httpx.Response(200, content=b"all of it")

    async def awaited() -> None:
        async with AsyncClient(URL, transport=httpx.MockTransport(answer)) as client:
            assert (await client.fetch_snapshot("new.tar", tmp_path / "a.tar")).read_bytes() == b"all of it"
            with pytest.raises(ServiceError, match="no snapshot"):
                await client.fetch_snapshot("gone.tar", tmp_path / "gone.tar")

    asyncio.run(awaited())
    with Client(URL, transport=httpx.MockTransport(answer)) as client:
        assert client.fetch_snapshot("new.tar", tmp_path / "b.tar").read_bytes() == b"all of it"
        with pytest.raises(MultifoldError, match="there already"):
            client.fetch_snapshot("new.tar", tmp_path / "a.tar")
        with pytest.raises(ServiceError, match="no snapshot"):
            client.fetch_snapshot("gone.tar", tmp_path / "gone.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar"]


def test_the_client_needs_no_extra() -> None:
    code = "import sys, multifold.client; sys.exit(bool({'onnxruntime', 'pydantic'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)
