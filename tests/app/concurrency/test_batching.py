"""Batches grow under load, nobody waits without need, and nobody suffers for another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.concurrency.batching import CLIENTS_ROOM, Batcher, QueueFullError
from app.concurrency.clients import client
from tests.waiting import wait_for


class Kitchen:
    """Doubles numbers, once it is open; keeps the batches it was given. 13 is poison."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[int]] = []

    def work(self, numbers: list[int]) -> list[int]:
        self.batches.append(numbers)
        self.entered.set()
        wait_for(self.open, "the kitchen to open")
        if 13 in numbers:
            raise ValueError("poison")
        return [2 * number for number in numbers]

    async def busy(self) -> None:
        """Wait until it has taken up a batch."""
        while not self.entered.is_set():
            await asyncio.sleep(0.001)


def run(
    test: Callable[[Kitchen, Batcher[int, int]], Awaitable[None]],
    most: int = 8,
    room: int = 32,
    **options: Any,  # noqa: ANN401
) -> Kitchen:
    kitchen = Kitchen()

    async def whole() -> None:
        batcher = Batcher(kitchen.work, most=most, room=room, **options)
        try:
            await test(kitchen, batcher)
        finally:
            kitchen.open.set()
            await asyncio.to_thread(batcher.close)

    asyncio.run(whole())
    return kitchen


async def occupied(kitchen: Kitchen, batcher: Batcher[int, int]) -> "asyncio.Task[int]":
    """Someone's request is being worked on."""
    first = asyncio.create_task(batcher.ask(1))
    await kitchen.busy()
    return first


async def asked(batcher: Batcher[int, int], *numbers: int) -> "list[asyncio.Task[int]]":
    tasks = [asyncio.create_task(batcher.ask(number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


async def ask_until_refused(batcher: Batcher[int, int], accepted: "list[asyncio.Task[int]]") -> None:
    while True:
        task = asyncio.create_task(batcher.ask(4))
        await asyncio.sleep(0.001)
        if task.done():
            task.result()
        accepted.append(task)


def test_what_comes_meanwhile_becomes_one_batch_up_to_the_most() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        rest = await asked(batcher, *range(2, 12))
        assert batcher.waiting == 10
        kitchen.open.set()
        assert [await one for one in (first, *rest)] == [2 * number for number in range(1, 12)]

    assert run(test).batches == [[1], list(range(2, 10)), [10, 11]]


def test_a_poisoned_one_fails_alone() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        mates = await asked(batcher, 7, 13, 8)
        kitchen.open.set()
        found = await asyncio.gather(first, *mates, return_exceptions=True)
        assert (found[0], found[1], found[3]) == (2, 14, 16)
        assert isinstance(found[2], ValueError)

    assert run(test).batches == [[1], [7, 13, 8], [7], [13], [8]]


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        waiting = await asked(batcher, 2, 3)
        with pytest.raises(QueueFullError, match="2 requests are waiting") as caught:
            await batcher.ask(4)
        assert (caught.value.status, caught.value.code) == (429, "busy")
        assert (caught.value.retry_after or 0) >= 1
        kitchen.open.set()
        assert await asyncio.gather(first, *waiting) == [2, 4, 6]
        assert await batcher.ask(5) == 10

    run(test, room=2)


def test_what_would_wait_too_long_is_refused_when_it_comes() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        await asyncio.sleep(0.05)
        kitchen.open.set()
        assert await first == 2  # from now on it is known how long one takes
        kitchen.open.clear()
        kitchen.entered.clear()
        first = await occupied(kitchen, batcher)
        (waits,) = await asked(batcher, 2)
        with pytest.raises(QueueFullError, match="1 requests are waiting"):
            await batcher.ask(3)
        kitchen.open.set()
        assert [await first, await waits, await batcher.ask(3)] == [2, 4, 6]

    assert run(test, patience=0.001).batches == [[1], [1], [2], [3]]


def test_one_client_neither_fills_the_room_nor_uses_up_the_patience_of_another() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        client.set("hungry")
        first = await occupied(kitchen, batcher)
        await asyncio.sleep(0.05)
        kitchen.open.set()
        await first
        kitchen.open.clear()
        kitchen.entered.clear()
        first = await occupied(kitchen, batcher)
        (waits,) = await asked(batcher, 2)
        with pytest.raises(QueueFullError):
            batcher.refuse_if_full()
        rest = [asyncio.create_task(batcher.ask(number, admitted=True)) for number in range(20, 50)]
        await asyncio.sleep(0)
        client.set("other")
        (other,) = await asked(batcher, 100)
        kitchen.open.set()
        assert [await one for one in (first, waits, other)] == [2, 4, 200]
        await asyncio.gather(*rest)

    batches = run(test, room=2, patience=0.001).batches
    assert sorted(batches[2]) == [2, 100]


def test_the_room_of_all_clients_is_bounded() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        tasks = [await occupied(kitchen, batcher)]
        for number in range(CLIENTS_ROOM):
            client.set(f"client {number}")
            tasks += await asked(batcher, 1)
        client.set("one more")
        with pytest.raises(QueueFullError, match=f"{CLIENTS_ROOM} requests are waiting"):
            batcher.refuse_if_full()
        kitchen.open.set()
        await asyncio.gather(*tasks)

    run(test, room=1)


def test_clients_come_and_go_while_others_ask_for_room() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        kitchen.open.set()

        async def ask(name: str) -> None:
            client.set(name)
            for _ in range(50):
                batcher.refuse_if_full()
                assert batcher.waiting >= 0
                assert await batcher.ask(2) == 4

        await asyncio.gather(*(ask(f"client {number}") for number in range(40)))

    run(test, room=100, most=2, threads=4)


def test_a_batch_costs_no_more_than_as_many_ordinary_requests() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        rest = await asked(batcher, 5, 2, 2, 2, 2, 9)
        kitchen.open.set()
        await asyncio.gather(first, *rest)

    assert run(test, most=8, cost=float).batches == [[1], [5, 2], [2, 2, 2], [9]]


def test_what_takes_long_is_done_in_smaller_batches_where_others_wait_for_it() -> None:
    """What is cheap together, such as changes in one transaction, says nothing of it."""

    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        await asyncio.sleep(0.05)
        kitchen.open.set()
        await first
        kitchen.open.clear()
        kitchen.entered.clear()
        first = await occupied(kitchen, batcher)
        rest = await asked(batcher, 2, 3, 4)
        kitchen.open.set()
        await asyncio.gather(first, *rest)

    assert run(test, unit_seconds=1e-6).batches == [[1], [1], [2], [3], [4]]
    assert run(test).batches == [[1], [1], [2, 3, 4]]


def test_who_goes_away_hears_what_became_of_what_has_begun_if_it_finishes() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = asyncio.create_task(batcher.ask(1, finishes=True))
        await kitchen.busy()
        waits = asyncio.create_task(batcher.ask(2, finishes=True))
        await asyncio.sleep(0)
        for gone in (first, waits):
            gone.cancel()
        await asyncio.sleep(0.01)
        kitchen.open.set()
        told = await asyncio.gather(first, waits, return_exceptions=True)
        assert told[0] == 2
        assert isinstance(told[1], asyncio.CancelledError)

    assert run(test).batches == [[1]]


def test_who_goes_away_costs_nothing() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        gone, stays = await asked(batcher, 2, 3)
        gone.cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 1
        kitchen.open.set()
        assert [await first, await stays] == [2, 6]

    assert run(test).batches == [[1], [3]]


def test_closing_finishes_what_was_accepted_and_takes_no_more() -> None:
    async def test(kitchen: Kitchen, batcher: Batcher[int, int]) -> None:
        first = await occupied(kitchen, batcher)
        rest = await asked(batcher, 2, 3)
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        with pytest.raises(QueueFullError):
            await ask_until_refused(batcher, rest)
        kitchen.open.set()
        await closing
        assert set(await asyncio.gather(first, *rest)) <= {2, 4, 6, 8}

    run(test, room=10_000)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 9), st.integers(1, 4))
def test_everyone_gets_their_own_answer(numbers: list[int], most: int, threads: int) -> None:
    def work(batch: list[int]) -> list[int]:
        if 13 in batch:
            raise ValueError("poison")
        assert len(batch) <= most
        return [2 * number for number in batch]

    async def whole() -> list[int | BaseException]:
        batcher = Batcher(work, most=most, room=100, threads=threads)
        found = await asyncio.gather(*map(batcher.ask, numbers), return_exceptions=True)
        await asyncio.to_thread(batcher.close)
        return found

    for number, found in zip(numbers, asyncio.run(whole()), strict=True):
        assert isinstance(found, ValueError) if number == 13 else found == 2 * number
