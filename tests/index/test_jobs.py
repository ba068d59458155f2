"""Jobs in the store: asked for, taken up, told of, lost and found again, on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index import jobs
from index.collection import Collection
from index.jobs import JobList, JobProgress, JobRecord, NoSuchJobError
from index.registry import CollectionRegistry
from tests.index.spaces import SPACE


@pytest.fixture
def known(tmp_path: Path, database: str | None) -> Iterator[JobList]:
    with Collection.open(tmp_path, SPACE, database=database):
        registry = CollectionRegistry(tmp_path, database)
        yield JobList(registry.store)
        registry.close()


def taken(known: JobList, worker: str) -> JobRecord:
    found = known.take(worker)
    assert found is not None
    return found


def test_a_job_is_done_once(known: JobList) -> None:
    first = known.add("ingest", "main", {"items": [1]}, 1)
    second = known.add("ingest", "chairs", {"items": []})
    assert taken(known, "a").id == first.id
    assert taken(known, "b").id == second.id
    assert known.take("c") is None
    progress = JobProgress(1, 1, result={"written": 1})
    assert known.tell(first.id, "a", progress)
    known.end(first.id, "a", "done", progress)
    ended = known.get(first.id)
    assert (ended.state, ended.progress, ended.spec) == ("done", progress, {})
    assert [one.id for one in known.all()] == [second.id, first.id]


def test_what_is_cancelled_is_not_done(known: JobList) -> None:
    waiting = known.add("ingest", "main", {})
    assert known.cancel(waiting.id).state == "cancelled"
    assert known.take("a") is None
    running = known.add("ingest", "main", {})
    taken(known, "a")
    assert known.cancel(running.id).state == "running"
    assert not known.tell(running.id, "a", JobProgress())
    known.end(running.id, "a", "cancelled", JobProgress())
    assert known.cancel(running.id).state == "cancelled"
    for name in ("x" * 1000, "\0", "0" * 32):
        with pytest.raises(NoSuchJobError, match="there is no job"):
            known.cancel(name)


def test_a_lost_job_is_taken_up_where_it_was(known: JobList, monkeypatch: pytest.MonkeyPatch) -> None:
    job = known.add("ingest", "main", {"items": [1, 2, 3]}, 3)
    taken(known, "a")
    known.tell(job.id, "a", JobProgress(2, 3))
    assert known.take("b") is None
    monkeypatch.setattr(jobs, "SILENT_SECONDS", -1.0)
    again = taken(known, "b")
    assert (again.progress.done, again.spec) == (2, {"items": [1, 2, 3]})
    assert not known.tell(job.id, "a", JobProgress(3, 3))  # it is not a's any more
    known.end(job.id, "a", "done", JobProgress(3, 3))
    assert known.get(job.id).state == "running"


def test_a_job_that_always_falls_is_given_up(known: JobList) -> None:
    job = known.add("ingest", "main", {})
    for worker in "abc":
        found = known.take(worker, alone=True)
        assert found is not None
    assert known.take("d", alone=True) is None
    ended = known.get(job.id)
    assert ended.state == "failed"
    assert "given up" in ended.progress.errors[0]


def test_the_service_ends_and_the_job_does_not(known: JobList) -> None:
    job = known.add("ingest", "main", {"items": [1]})
    for _ in range(5):  # a proper end is no fall
        taken(known, "a")
        known.end(job.id, "a", "queued", JobProgress(1, 2))
    assert taken(known, "b").progress.done == 1


def test_few_errors_are_told_and_all_are_counted() -> None:
    progress = JobProgress()
    for number in range(1000):
        progress.error(str(number))
    assert (len(progress.errors), progress.result["errors"]) == (jobs.MOST_ERRORS, 1000)


def test_old_jobs_are_forgotten(known: JobList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT_JOBS", 3)
    waiting = known.add("ingest", "main", {})
    for _ in range(8):
        known.cancel(known.add("ingest", "main", {}).id)
    assert 3 <= len(known.all()) <= 5
    assert waiting.id in [one.id for one in known.all()]
