"""What the clients do of their own: readiness, the wait for a job, and a snapshot as a file."""

import subprocess
import sys
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import httpx

from multifold.client import ServiceError
from multifold.errors import MultifoldError
from tests.kernel.client.service import Service, both

JOB = {"id": "j1", "kind": "rebuild", "collection": "main", "state": "running", "done": 3, "total": 9}
JOB |= {"errors": [], "result": {}, "created": "2026-01-01T00:00:00Z", "ended": None}


def test_ready_is_yes_or_no() -> None:
    service = Service({"status": "ok"})
    for status, ready in ((200, True), (503, False)):
        service.status = status
        assert both(service, lambda client: client.ready()) == [ready] * 2
    assert service.asked[0].url.path == "/readyz"


def jobs() -> Callable[[httpx.Request], httpx.Response]:
    """A job that is done at the second look, for one client and for the other, then one without an end."""
    states = chain(["running", "done"] * 2, repeat("running"))

    def answer(_: httpx.Request) -> httpx.Response:
        state = next(states)
        ended = "2026-01-01T00:00:01Z" if state == "done" else None
        return httpx.Response(200, json={"job": {**JOB, "state": state, "ended": ended}})

    return answer


def test_a_job_is_waited_for_and_given_up() -> None:
    answer = jobs()
    assert [job.state for job in both(answer, lambda client: client.wait("j1", 0.01))] == ["done"] * 2
    for error in both(answer, lambda client: client.wait("j1", 0.01, limit=0.05)):
        assert isinstance(error, MultifoldError)
        assert "rebuild j1 of main is running after 0.05 s, 3 of 9 done" in str(error)


def test_a_snapshot_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "gone" in request.url.path:
            return httpx.Response(404, json={"error": {"code": "not_found", "message": "no snapshot"}})
        return httpx.Response(200, content=b"all of it")

    file = tmp_path / "a.tar"
    first, second = both(answer, lambda client: client.fetch_snapshot("new.tar", file))
    assert (first, first.read_bytes()) == (file, b"all of it")
    assert "there already" in str(second)
    for error in both(answer, lambda client: client.fetch_snapshot("gone.tar", tmp_path / "gone.tar")):
        assert isinstance(error, ServiceError)
        assert "no snapshot" in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_the_client_needs_no_extra() -> None:
    code = "import sys, multifold.client; sys.exit(bool({'onnxruntime', 'pydantic'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)
