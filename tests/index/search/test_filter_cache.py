"""Filters that are remembered: as good as those read anew, whatever was written since."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from index.collection import Collection
from index.contracts import IndexPlan
from index.search import filter_cache
from index.search.filter_cache import FilterCache
from index.store import filters
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Pooling
from tests.index.filtering import Raw, lets_through, random_filter
from tests.index.spaces import SPACE, Sphere
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


DIM, ITEMS, QUERIES = 16, 2000, 10
RECALL, MARGIN = 0.95, 0.03


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collection, dict[str, Item]]]:
    """A collection behind a graph, in which rows were replaced and deleted since it was built."""
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((40, DIM))

    def items(names: range) -> list[Item]:
        middle = centres[rng.integers(0, 40, len(names))]
        features = (middle[:, None] + 0.6 * rng.standard_normal((len(names), 2, DIM))).astype(np.float32)
        return [
            Item(
                f"i{name}",
                tuple(Observation("view", n, one) for n, one in enumerate(some)),
                {"u": rng.random()},
            )
            for name, some in zip(names, features, strict=True)
        ]

    plan = IndexPlan("HNSW16,SQ8", "cpu", RECALL, seal_at=ITEMS, flat_below=0)
    with Collection.open(tmp_path_factory.mktemp("indexed"), Sphere(DIM), plan=plan) as collection:
        held = items(range(ITEMS))
        collection.upsert(held)
        collection.engines.settle()
        where = parse_filter({"u": {"gte": 0}})  # which is remembered
        assert len(collection.search(query(feature(1).repeat(4), where=where))) == 10
        changed = items(range(ITEMS // 2, ITEMS // 2 + 150))
        collection.upsert(changed)
        gone = {f"i{name}" for name in range(0, ITEMS, 10)}
        collection.delete(sorted(gone))
        yield collection, {item.id: item for item in (*held, *changed) if item.id not in gone}


@pytest.mark.parametrize("pooled", ["mean", "max"])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_a_filter_costs_no_hit(
    indexed: tuple[Collection, dict[str, Item]], share: float, pooled: Pooling
) -> None:
    collection, held = indexed
    rng = np.random.default_rng(int(1 / share))
    good = total = 0
    for _ in range(QUERIES):
        where = random_filter(rng, share)
        among = [item for item in held.values() if lets_through(where, item.payload)]
        vector = _unit(rng.standard_normal(DIM))
        asked = query(vector, limit=10, pool=pooled, where=parse_filter(where))
        hits = collection.search(asked)
        assert len(hits) == min(10, len(among))
        scores = sorted((POOLED[pooled](vector, item) for item in among), reverse=True)[:10]
        good += sum(hit.score >= scores[-1] - 1e-6 for hit in hits)
        total += len(hits)
        assert all(lets_through(where, hit.payload) for hit in hits)
        exact = collection.search(replace(asked, exact=True))
        assert [hit.score for hit in exact] == pytest.approx(scores, abs=1e-6)
    assert good >= (RECALL - MARGIN) * total


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _seen(item: Item) -> np.ndarray:
    return np.stack([one.feature for one in item.observations]).astype(np.float64)


POOLED: dict[Pooling, Callable[[np.ndarray, Item], float]] = {
    "mean": lambda asked, item: float(_unit(_seen(item).mean(axis=0)) @ asked),
    "max": lambda asked, item: max(float(_unit(row) @ asked) for row in _seen(item)),
}
