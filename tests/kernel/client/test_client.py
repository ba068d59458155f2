"""What the clients do of their own: readiness, the wait for a job, and a snapshot as a file."""

import subprocess
import sys
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import httpx

from multifold.client import ServiceError
from multifold.errors import MultifoldError
from multifold.wire.items import NewItem
from multifold.wire.search import Search
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


def test_a_session_passes_on_what_it_has_written() -> None:
    """The version of its last change to the collection that it asks, by whatever method that was made."""
    written = {"id": "a", "version": 7, "observations": {}, "warnings": []}
    service = Service(written)
    with service.client() as client:
        asked: dict[str, Any] = {"text": "a chair", "consistency": "session"}
        client.upsert("a", texts=["a chair"])
        service.answer = {"changed": 1, "version": 9}
        client.update_many(["a"], payload={})
        service.answer = {"results": [], "written": 0, "refused": 0, "version": 8}
        client.collection("other").upsert_many([NewItem("b", texts=["b"])])
        service.answer = {"hits": [], "took_ms": {"encode": 0, "search": 0, "total": 0}, "version": 9}
        service.answer |= {"bundle": "b"}
        client.search(**asked)
        assert service.json == {**asked, "seen": 9}
        client.collection("other").search(**asked)
        assert service.json == {**asked, "seen": 8}
        client.collection("third").search(**asked)
        assert service.json == asked
        client.search(text="a chair")
        assert service.json == {"text": "a chair"}
        client.search(**asked, seen=3)
        assert service.json == {**asked, "seen": 3}
        client.similar("a", consistency="session")
        assert service.json == {"consistency": "session", "seen": 9}
        service.answer = {"answers": []}
        client.search_many([Search(text="a chair", consistency="session"), Search(text="b")])
        assert service.json["searches"] == [{**asked, "seen": 9}, {"text": "b"}]
