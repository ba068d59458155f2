"""Clients are told apart, and none takes all places."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from app.concurrency import clients
from app.concurrency.clients import ClientLimit, Places, Refusals, client, client_at
from app.errors import ApiError
from tests.app.answers import refused
from tests.app.house import House


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),  # one host chooses among these
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("unix", "", False),
    ],
)
def test_a_client_is_an_address_or_what_one_host_may_call_itself(
    address: str, other: str, same: bool
) -> None:
    assert (client_at(address) == client_at(other)) == same


@pytest.mark.parametrize(("places", "own"), [(1, 1), (2, 1), (3, 2), (8, 4)])
def test_one_client_has_half_of_the_places_and_all_have_no_more_than_there_are(places: int, own: int) -> None:
    room = Places(places, "streams", 7)
    with ExitStack() as stack:
        for name, count in (("a", own), ("b", places - own), ("c", 0)):
            client.set(name)
            for _ in range(count):
                stack.enter_context(room.take())
            with pytest.raises(ApiError, match=f"{count} of them yours") as caught:
                stack.enter_context(room.take())
            assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "busy", 7)
    with room.take():  # all have been given back
        pass


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/items/scroll", {}),
        ("/v1/jobs", None),
        ("/v1/rerank", {"text": "red", "candidates": [{"id": "red-box"}]}),
        ("/v1/classify", {"text": "red", "labels": ["red"]}),
        ("/v1/items/tags:propose", {"labels": ["red"]}),
    ],
)
def test_what_has_turns_is_refused_where_too_much_waits(
    shop: House, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any] | None
) -> None:
    method = "GET" if body is None else "POST"
    assert shop.client.request(method, path, json=body).status_code == 200
    for limit in (shop.service.workers.listing, shop.service.workers.labelling):
        monkeypatch.setattr(limit, "_room", 0)
    refused(shop.client.request(method, path, json=body), 429, "busy", "of your requests are waiting")


def test_who_asks_on_though_refused_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[str] = []

    async def note(_seconds: float) -> None:
        paused.append(client.get())

    async def whole() -> None:
        refusals = Refusals()
        monkeypatch.setattr(asyncio, "sleep", note)
        for name, times in (("hungry", clients.QUICK_REFUSALS + 2), ("other", clients.QUICK_REFUSALS)):
            client.set(name)
            for _ in range(times):
                await refusals.hold()
        assert paused == ["hungry", "hungry"]
        monkeypatch.setattr(clients, "REFUSAL_SECONDS", -1.0)  # it has waited
        client.set("hungry")
        await refusals.hold()
        assert len(paused) == 2
        monkeypatch.setattr(clients, "REFUSAL_SECONDS", 1.0)
        monkeypatch.setattr(clients, "MOST_REFUSED", 2)
        for name in ("a", "b", "c"):
            client.set(name)
            await refusals.hold()
        client.set("hungry")  # of whom nothing is known any more
        await refusals.hold()
        assert len(paused) == 2

    asyncio.run(whole())


def test_so_many_requests_of_each_client_are_at_work_and_what_finds_too_many_waiting_is_refused() -> None:
    at_work: list[str] = []
    go_on = asyncio.Event()

    async def work(limit: ClientLimit) -> None:
        async with limit.turn():
            at_work.append(client.get())
            await go_on.wait()

    async def whole() -> None:
        limit = ClientLimit(2, room=3)
        client.set("hungry")
        tasks = [asyncio.create_task(work(limit)) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="3 of your requests are waiting") as caught:
            limit.refuse_if_full()
        assert (caught.value.status, caught.value.retry_after) == (429, 1)
        client.set("other")
        limit.refuse_if_full()
        tasks.append(asyncio.create_task(work(limit)))
        await asyncio.sleep(0)
        assert at_work == ["hungry", "hungry", "other"]
        tasks.pop(2).cancel()
        go_on.set()
        await asyncio.gather(*tasks)
        client.set("hungry")
        limit.refuse_if_full()

    asyncio.run(whole())
    assert at_work.count("hungry") == 4
