"""Filters that are remembered: as good as those read anew, whatever was written since."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from index.collection import Collection
from index.search import filter_cache
from index.search.filter_cache import FilterCache
from index.store import filters
from index.store.filters import parse_filter
from multifold.types import Item
from tests.index.filtering import Raw, lets_through
from tests.index.spaces import SPACE
from tests.index.things import feature, query, view


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


def numbered(name: int, number: int) -> Item:
    seen = tuple(view(place, feature(1, name)) for place in range(1 + name % 3))
    return Item(f"i{name}", seen, {"n": number, "even": number % 2 == 0, "tags": [f"t{number % 7}", "all"]})


def passing(collection: Collection, where: Raw) -> list[str]:
    return [hit.id for hit in collection.search(query(feature(1), limit=300, where=parse_filter(where)))]


FILTERS: tuple[Raw, ...] = (
    {},
    {"even": True},
    {"not": {"even": True}},
    {"n": {"gte": 40, "lt": 90}, "tags": "t3"},
    {"or": [{"tags": {"prefix": "t1"}}, {"not": {"tags": {"exists": True}}}, {"n": {"in": [7, 8]}}]},
)


@pytest.mark.parametrize("few", [5, 4096])
def test_what_is_remembered_is_what_the_store_says(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(filter_cache, "MAX_FOLLOWED_CHANGES", few)
    rng = np.random.default_rng(0)
    held: dict[str, Item] = {}
    for turn in range(20):
        names = rng.permutation(60)[: rng.integers(1, 20)]
        items = [numbered(int(name), int(rng.integers(100))) for name in names]
        gone = [f"i{name}" for name in rng.integers(0, 60, rng.integers(0, 6))]
        collection.upsert(items)
        collection.delete(gone)
        held |= {one.id: one for one in items}
        held = {name: item for name, item in held.items() if name not in gone}
        for where in FILTERS[: 1 + turn % len(FILTERS)]:
            wanted = sorted(name for name, item in held.items() if lets_through(where, item.payload))
            for pooled in ("mean", "max"):
                hits = collection.search(query(feature(1), limit=100, pool=pooled, where=parse_filter(where)))
                assert sorted(hit.id for hit in hits) == wanted


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """After which edition conditions were read from the store, one by one."""
    seen: list[int | None] = []
    editions_of = filters.matching_editions

    def counted(now: object, leaf: object, after: int | None) -> np.ndarray:
        seen.append(after)
        return editions_of(now, leaf, after)  # type: ignore[arg-type]

    monkeypatch.setattr(filters, "matching_editions", counted)
    return seen


def test_a_filter_is_read_once_and_then_only_what_is_new(
    collection: Collection, read: list[int | None]
) -> None:
    collection.upsert([numbered(n, n) for n in range(100)])
    where = {"even": True, "n": {"lt": 50}}
    for _ in range(3):
        assert len(passing(collection, where)) == 25
    assert read == [None, None]
    collection.upsert([numbered(200, 8)])
    for _ in range(3):
        assert len(passing(collection, where)) == 26
    assert read == [None, None, 100, 100]
    passing(collection, {"even": True})
    assert len(read) == 4  # the condition is known from the other filter


def test_little_is_remembered_for_long(
    collection: Collection, read: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_cache, "MAX_REMEMBERED", 8)

    def reads(wanted: int, where: Raw) -> int:
        before = len(read)
        assert len(passing(collection, where)) == wanted
        return len(read) - before

    collection.upsert([numbered(n, n) for n in range(200)])
    assert [reads(1, {"n": n}) for n in range(12)] == [1] * 12
    assert [reads(1, {"n": n}) for n in (11, 4)] == [0, 0]
    assert reads(1, {"n": 3}) == 1
    assert reads(100, {"or": [{"n": n} for n in range(100)]}) >= 100 - 8
    monkeypatch.setattr(filter_cache, "MOST_BITS", 1000)  # those of five conditions
    assert [reads(n, {"n": {"lt": n}}) for n in range(20, 27)] == [1] * 7
    assert [reads(n, {"n": {"lt": n}, "tags": "all"}) for n in (26, 25, 24, 20)] == [1, 0, 0, 1]


def test_the_list_does_not_go_back(collection: Collection) -> None:
    """What reads an earlier version would say of newer editions that they do not pass."""
    where, remembered = parse_filter({"even": True}), FilterCache()
    collection.upsert([numbered(n, n) for n in range(10)])

    def later(now: Connection) -> int:
        return len(remembered.candidates(now, where, 14) or ())

    def earlier(now: Connection) -> None:
        assert len(remembered.candidates(now, where, 10) or ()) == 5
        with ThreadPoolExecutor(1) as other:  # a moment of its own
            other.submit(collection.upsert, [numbered(n, n) for n in range(10, 14)]).result()
            assert other.submit(collection.read, later).result() == 7
            assert remembered.candidates(now, where, 10) is None
            assert other.submit(collection.read, later).result() == 7

    collection.read(earlier)


def test_a_search_that_is_not_strong_takes_a_list_that_is_further(collection: Collection) -> None:
    """It sees nothing that is newer than itself, and what is read for it holds for others."""
    even, small, remembered = parse_filter({"even": True}), parse_filter({"n": {"lt": 12}}), FilterCache()
    collection.upsert([numbered(n, n) for n in range(10)])

    def later_even(now: Connection) -> int:
        return len(remembered.candidates(now, even, 14) or ())

    def later(now: Connection) -> list[int]:
        return [len(remembered.candidates(now, where, 14) or ()) for where in (even, small)]

    def earlier(now: Connection) -> None:
        with ThreadPoolExecutor(1) as other:  # a moment of its own
            other.submit(collection.upsert, [numbered(n, n) for n in range(10, 14)]).result()
            assert (
                other.submit(
                    collection.read, lambda now: len(remembered.candidates(now, even, 14) or ())
                ).result()
                == 7
            )
            for where, passing in ((even, 5), (small, 10)):
                found = remembered.candidates(now, where, 10, strong=False)
                assert found is not None
                assert found.editions.tolist() == [n + 1 for n in range(10) if where is small or n % 2 == 0]
                assert len(found) == passing
            assert other.submit(collection.read, later).result() == [7, 12]

    collection.read(earlier)
