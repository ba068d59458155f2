"""Long work through the API: it goes on after its answer, and after a kill."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.ingest import pipeline
from app.ingest.pipeline import EncodedItem
from app.runtime import bulk, jobs
from index.collection import Collection
from index.jobs import JobList, JobRecord
from multifold.client import AsyncClient, Client, NewItem, ServiceError
from tests.app.answers import refused
from tests.app.house import LONGEST, House, house
from tests.waiting import until, wait_for


@pytest.fixture
def client(shop: House) -> Iterator[Client]:
    with Client(shop.url) as opened:
        yield opened
        for one in opened.collections():
            if one.name != "main":
                opened.drop_collection(one.name)


def items(count: int) -> list[NewItem]:
    return [NewItem(f"item-{number}", texts=[f"a red box {number}"]) for number in range(count)]


def test_items_are_written_after_the_answer(client: Client) -> None:
    client.create_collection("many")
    many = client.collection("many")
    job = many.upsert_later([*items(40), NewItem("bad")])
    assert (job.state, job.total, job.collection) == ("queued", 41, "many")
    done = many.wait(job.id, 0.05)
    assert (done.state, done.done, many.count()) == ("done", 41, 40)
    assert done.result == {"written": 40, "errors": 1}
    assert len(done.errors) == 1
    assert done.errors[0].startswith("'bad': ")
    assert client.jobs()[0] == done


def test_a_job_is_cancelled(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.create_collection("few")
    few = client.collection("few")
    monkeypatch.setattr(bulk, "ITEMS_A_STEP", 1)
    go_on, plain = threading.Event(), pipeline.write_items

    def slow(collection: Collection, items: list[EncodedItem]) -> object:
        wait_for(go_on, "the test to let it go on")
        return plain(collection, items)

    monkeypatch.setattr(pipeline, "write_items", slow)
    job = few.upsert_later(items(5))
    waiting = few.upsert_later(items(5))
    assert few.cancel(waiting.id).state == "cancelled"
    few.cancel(job.id)
    ended = few.wait(job.id, 0.05)
    go_on.set()
    assert ended.state == "cancelled"
    assert ended.done < 5


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What every write waits for."""
    event, plain = threading.Event(), pipeline.write_items

    def slow(collection: Collection, items: list[EncodedItem]) -> object:
        wait_for(event, "the test to let it go on")
        return plain(collection, items)

    monkeypatch.setattr(pipeline, "write_items", slow)
    yield event
    event.set()


@contextmanager
def set_at_the_end(event: threading.Event) -> Iterator[None]:
    """A house that is closed waits for its writes, and these for the event, also where a test has failed."""
    try:
        yield
    finally:
        event.set()


def test_a_job_is_followed_until_it_has_ended_however_long_that_takes(
    tmp_path: Path, bundle: Path, go_on: threading.Event
) -> None:
    hasty = house(tmp_path, bundle, request_timeout=5.0)
    with hasty as shop, Client(shop.url) as client, set_at_the_end(go_on):
        job = client.upsert_later(items(1))
        states = []
        for now in client.follow(job.id):
            if now.state == "running":
                time.sleep(6)  # longer than other requests may take
                go_on.set()
            states.append(now.state)
        assert states[-2:] == ["running", "done"]
        with shop.client.stream("GET", f"/v1/jobs/{job.id}/events") as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            (only,) = [line for line in events.iter_lines() if line]
        assert json.loads(only.removeprefix("data: ")) == shop.client.get(f"/v1/jobs/{job.id}").json()["job"]

        async def follow() -> list[str]:
            async with AsyncClient(shop.url) as waiting:
                return [now.state async for now in waiting.follow(job.id)]

        assert asyncio.run(follow()) == ["done"]


FOLLOWERS = 30


async def note_states(client: AsyncClient, job: str, told: list[str]) -> None:
    """Note each state that a follower hears of."""
    async for now in client.follow(job):
        told += [now.state]


def test_all_followers_of_a_job_have_one_reader(
    tmp_path: Path, bundle: Path, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the job as soon as that has changed, not when its time comes."""
    monkeypatch.setattr(jobs, "FOLLOW_SECONDS", LONGEST)
    reads: list[str] = []
    plain = JobList.get

    def read(known: JobList, name: str) -> JobRecord:
        reads.append(name)
        return plain(known, name)

    async def follow_all(url: str, job: str) -> list[str]:
        told: list[str] = []
        async with AsyncClient(url) as client, asyncio.TaskGroup() as group:
            for _ in range(FOLLOWERS):
                group.create_task(note_states(client, job, told))
            await asyncio.to_thread(until, lambda: told.count("running") == FOLLOWERS)
            monkeypatch.setattr(JobList, "get", read)
            go_on.set()
        return told

    with house(tmp_path, bundle) as shop, Client(shop.url) as client, set_at_the_end(go_on):
        job = client.upsert_later(items(1))
        told = asyncio.run(follow_all(shop.url, job.id))
    assert told.count("done") == FOLLOWERS
    assert 1 <= len(reads) < FOLLOWERS / 2


def test_followers_are_bounded_and_one_client_has_half_of_their_places(
    tmp_path: Path, bundle: Path, go_on: threading.Event
) -> None:
    keys = {"read": "r" * 16, "write": "w" * 16}
    known = ",".join(f"{scope}:{key}" for scope, key in keys.items())
    with house(tmp_path, bundle, keys=known, streams=4) as shop, ExitStack() as stack:
        stack.enter_context(set_at_the_end(go_on))
        writer = stack.enter_context(Client(shop.url, api_key=keys["write"]))
        reader = stack.enter_context(Client(shop.url, api_key=keys["read"]))
        job = writer.upsert_later(items(1))
        streams = [client.follow(job.id) for client in (writer, writer, reader)]
        for stream in streams:
            assert next(stream).ended is None
        with pytest.raises(ServiceError, match="3 streams of events are open, 2 of them yours") as caught:
            next(writer.follow(job.id))
        assert (caught.value.status, caught.value.code) == (429, "busy")
        assert caught.value.retry_after
        assert next(reader.follow(job.id)).ended is None
        go_on.set()
        for stream in streams:
            assert [now.state for now in stream][-1] == "done"
        shop.settle()
        assert next(writer.follow(job.id)).state == "done"


def test_who_follows_a_job_that_does_not_change_is_let_go(
    client: Client, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "FOLLOW_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "IDLE_STREAM_SECONDS", 0.1)
    client.create_collection("few")
    first, job = (client.collection("few").upsert_later(items(1)) for _ in range(2))
    assert [now.state for now in client.follow(job.id)] == ["queued"]
    go_on.set()
    assert client.wait(first.id, 0.05).state == client.wait(job.id, 0.05).state == "done"


def test_events_end_with_the_service(
    client: Client, shop: House, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_collection("few")
    job = client.collection("few").upsert_later(items(1))
    monkeypatch.setattr(shop.shelf, "is_stopping", lambda: True)
    assert [now.ended for now in client.follow(job.id)] == [None]
    go_on.set()
    assert client.wait(job.id, 0.05).state == "done"


def test_jobs_that_are_not_there(client: Client, shop: House) -> None:
    for ask in (client.job, client.cancel, lambda name: next(client.follow(name))):
        with pytest.raises(ServiceError, match="there is no job") as caught:
            ask("nothing")
        assert (caught.value.status, caught.value.code) == (404, "no_such_job")
    refused(shop.client.post("/v1/items/bulk", json={"items": []}), 422, "bad_request")


def test_a_job_goes_on_when_the_service_is_back(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, bundle) as shop, Client(shop.url) as client, monkeypatch.context() as patched:
        patched.setattr(bulk, "ITEMS_A_STEP", 1)
        job = client.upsert_later(items(200))
        until(lambda: client.count() >= 3)
    with house(tmp_path, bundle) as shop, Client(shop.url) as client:
        done = client.wait(job.id, 0.05)
        assert (done.state, done.done, client.count()) == ("done", 200, 200)
