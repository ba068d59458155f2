"""Long work through the API: it goes on after its answer, and after a kill."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ingest import pipeline
from app.ingest.pipeline import EncodedItem
from app.runtime import bulk
from index.collection import Collection
from multifold.client import Client, NewItem, ServiceError
from tests.app.answers import refused
from tests.app.house import House, house
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


def test_jobs_that_are_not_there(client: Client, shop: House) -> None:
    for ask in (client.job, client.cancel):
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
