"""Changes that wait are made together where that is possible, and each has an outcome of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.collections.changes import ChangeQueue
from app.errors import ApiError
from app.ingest.pipeline import Encoded, EncodedItem, WrittenItem
from index.store.item_rows import ItemError
from multifold.types import Item
from tests.app.house import House


@pytest.fixture
def written(own: House, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each transaction wrote."""
    own.fill("red", "blue")
    seen: list[int] = []
    upsert = own.service.collection.upsert

    def noted(items: list[Item]) -> int:
        seen.append(len(items))
        return upsert(items)

    monkeypatch.setattr(own.service.collection, "upsert", noted)
    return seen


def outcomes(own: House, *asked: Callable[[ChangeQueue], Awaitable[Any]]) -> list[Any]:
    """What becomes of changes that come while another one is made."""

    async def ask() -> list[Any]:
        changes = own.service.changes
        with own.service.writing:
            first = asyncio.create_task(changes.remove(["none"]))
            await asyncio.sleep(0.2)
            tasks = [asyncio.ensure_future(one(changes)) for one in asked]
            await asyncio.sleep(0.01)
        assert await first == 0
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask())


def write(own: House, name: str, *failed: Exception) -> Callable[[ChangeQueue], Awaitable[Any]]:
    item = Item(name, own.service.item("red-box").observations, {})

    def make() -> list[Encoded]:
        for error in failed:
            raise error
        return [EncodedItem(item)]

    return lambda changes: changes.write([name], make)


def test_changes_of_different_items_are_one_transaction(own: House, written: list[int]) -> None:
    missing = ApiError(404, "not_found", "there is no such item")
    found = outcomes(
        own,
        *(write(own, f"many-{n}") for n in range(5)),
        lambda changes: changes.remove(["blue-box", "none"]),
        write(own, "fails", missing),
        lambda changes: changes.remove(["none"]),
    )
    assert written == [5]
    assert [isinstance(one[0], WrittenItem) for one in found[:5]] == [True] * 5
    assert found[5:] == [1, missing, 0]


def test_changes_of_one_item_are_made_in_turn(own: House, written: list[int]) -> None:
    found = outcomes(
        own,
        write(own, "one"),
        lambda changes: changes.remove(["one"]),
        write(own, "one"),
        lambda changes: changes.run(lambda: own.service.item("one").id),
        write(own, "two"),
    )
    assert written == [1, 1, 1]
    assert (found[1], found[3]) == (1, "one")


def test_one_that_is_refused_keeps_no_other_out(own: House, written: list[int]) -> None:
    found = outcomes(own, write(own, "good"), write(own, ""), write(own, "better"))
    assert written == [3, 1, 1, 1]
    assert isinstance(found[1][0], ItemError)
    assert [one[0].item.id for one in (found[0], found[2])] == ["good", "better"]
