"""Jobs in the store: asked for, taken up, told of, lost and found again, on either database."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from index import jobs
from index.collection import Collection
from index.jobs import JobList, JobProgress, NoSuchJobError, TakenJob
from index.registry import CollectionRegistry
from index.store.database import Database
from tests.index.spaces import SPACE


@pytest.fixture
def store(tmp_path: Path, database: str | None) -> Iterator[Database]:
    with Collection.open(tmp_path, SPACE, database=database):
        registry = CollectionRegistry(tmp_path, database)
        yield registry.store
        registry.close()


@pytest.fixture
def known(store: Database) -> JobList:
    return JobList(store)


def taken(known: JobList, worker: str) -> TakenJob:
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
    assert (ended.state, ended.progress) == ("done", progress)
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


def test_only_the_worker_reads_what_is_to_be_done(known: JobList) -> None:
    spec = {"items": ["x" * 1_000_000]}
    names = [known.add("ingest", "main", spec).id for _ in range(5)]
    tracemalloc.start()
    known.all()
    known.get(names[0])
    known.cancel(names[1])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000
    assert taken(known, "a").spec == spec


def test_what_is_to_be_done_is_forgotten_at_the_end(known: JobList, store: Database) -> None:
    known.cancel(known.add("ingest", "main", {"items": [1]}).id)
    done = known.add("ingest", "main", {"items": [2]})
    taken(known, "a")
    known.end(done.id, "a", "done", JobProgress())
    with store.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(jobs.specs)) == 0


def test_jobs_of_an_earlier_version_are_done(known: JobList, store: Database) -> None:
    job = known.add("ingest", "main", {"items": []})
    ended = known.cancel(known.add("ingest", "main", {}).id)
    with store.writing() as connection:  # as it was before
        connection.execute(sa.text("ALTER TABLE jobs ADD COLUMN spec TEXT NOT NULL DEFAULT '{}'"))
        connection.execute(sa.text("UPDATE jobs SET spec = '{\"items\": [7]}' WHERE ended IS NULL"))
        connection.execute(sa.text("DROP TABLE job_specs"))
    known = JobList(store)
    assert JobList(store).get(ended.id) == ended
    found = taken(known, "a")
    assert (found.id, found.spec) == (job.id, {"items": [7]})


def test_a_store_that_takes_nothing_has_the_jobs_of_before(store: Database) -> None:
    never = JobList(store, writes=False)
    assert never.all() == []
    with pytest.raises(NoSuchJobError):
        never.get("0" * 32)
    job = JobList(store).add("ingest", "main", {})
    assert JobList(store, writes=False).all() == [job]


def test_few_errors_are_told_and_all_are_counted() -> None:
    progress = JobProgress()
    for number in range(1000):
        progress.error(f"{number} " + "x" * 100_000)
    assert (len(progress.errors), progress.result["errors"]) == (jobs.JOB_ERRORS, 1000)
    assert max(map(len, progress.errors)) == jobs.LONGEST_ERROR


def test_old_jobs_are_forgotten(known: JobList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT_JOBS", 3)
    waiting = known.add("ingest", "main", {})
    for _ in range(8):
        known.cancel(known.add("ingest", "main", {}).id)
    assert 3 <= len(known.all()) <= 5
    assert waiting.id in [one.id for one in known.all()]
