"""Filters that are remembered: as good as those read anew, whatever was written since."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import IndexPlan
from index.search import filter_cache as bitmaps
from index.search.filter_cache import FilterCache
from index.store import filters
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Pooling
from tests.index.filtering import Raw, lets_through, random_filter
from tests.index.spaces import SPACE, Sphere
from tests.index.things import feature, query, view

DIM, ITEMS, QUERIES = 16, 4000, 25
RECALL, MARGIN = 0.95, 0.03


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


def numbered(name: int, number: int) -> Item:
    seen = tuple(view(place, feature(1, name)) for place in range(1 + name % 3))
    return Item(f"i{name}", seen, {"n": number, "even": number % 2 == 0, "tags": [f"t{number % 7}", "all"]})


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
    monkeypatch.setattr(bitmaps, "MAX_FOLLOWED_CHANGES", few)
    rng = np.random.default_rng(0)
    held: dict[str, Item] = {}
    for turn in range(25):
        items = [
            numbered(int(name), int(rng.integers(100))) for name in rng.permutation(60)[: rng.integers(1, 20)]
        ]
        gone = [f"i{name}" for name in rng.integers(0, 60, rng.integers(0, 6))]
        collection.upsert(items)
        collection.delete(gone)
        held = {
            name: item for name, item in (held | {one.id: one for one in items}).items() if name not in gone
        }
        for where in FILTERS[: 1 + turn % len(FILTERS)]:
            wanted = {name for name, item in held.items() if lets_through(where, item.payload)}
            for pooled in ("mean", "max"):
                hits = collection.search(query(feature(1), limit=100, pool=pooled, where=parse_filter(where)))
                assert {hit.id for hit in hits} == wanted
                assert len(hits) == len(wanted)


def test_a_filter_is_read_once_and_then_only_what_is_new(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int | None] = []
    editions_of = filters.matching_editions

    def counted(now: object, leaf: object, after: int | None) -> np.ndarray:
        read.append(after)
        return editions_of(now, leaf, after)  # type: ignore[arg-type]

    monkeypatch.setattr(filters, "matching_editions", counted)
    collection.upsert([numbered(n, n) for n in range(100)])
    where = parse_filter({"even": True, "n": {"lt": 50}})
    for _ in range(3):
        assert len(collection.search(query(feature(1), limit=100, where=where))) == 25
    assert read == [None, None]
    collection.upsert([numbered(200, 8)])
    for _ in range(3):
        assert len(collection.search(query(feature(1), limit=100, where=where))) == 26
    assert read == [None, None, 100, 100]
    collection.search(query(feature(1), where=parse_filter({"even": True})))
    assert len(read) == 4  # the condition is known from the other filter


def test_the_list_does_not_go_back(collection: Collection) -> None:
    """What reads an earlier version would say of newer editions that they do not pass."""
    where, remembered = parse_filter({"even": True}), FilterCache()
    collection.upsert([numbered(n, n) for n in range(10)])
    with collection._store.moment() as now:
        assert len(remembered.candidates(now, where, 10) or ()) == 5
        with ThreadPoolExecutor(1) as other:  # a moment of its own
            other.submit(collection.upsert, [numbered(n, n) for n in range(10, 14)]).result()

            def passing() -> int:
                with collection._store.moment() as later:
                    return len(remembered.candidates(later, where, 14) or ())

            assert other.submit(passing).result() == 7
            assert remembered.candidates(now, where, 10) is None
            assert other.submit(passing).result() == 7


def test_little_is_remembered_for_long(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    collection.upsert([numbered(n, n) for n in range(200)])
    remembered: FilterCache = collection._bitmaps
    for n in range(150):
        assert len(collection.search(query(feature(1), where=parse_filter({"n": n})))) == 1
    assert len(remembered._leaves) == len(remembered._filters) == bitmaps.MAX_REMEMBERED
    monkeypatch.setattr(bitmaps, "MOST_BITS", 1000)
    monkeypatch.setattr(bitmaps, "MOST_EDITIONS", 100)
    for n in range(50):
        assert len(collection.search(query(feature(1), limit=99, where=parse_filter({"n": {"lt": n}})))) == n
    assert len(remembered._leaves) == 5
    assert [len(one) for one in remembered._filters.values()] == [48, 49]
    many = parse_filter({"or": [{"n": n} for n in range(100)]})
    assert len(collection.search(query(feature(1), limit=200, where=many))) == 100


def one(name: int, features: np.ndarray, place: float) -> Item:
    seen = tuple(Observation("view", n, feature) for n, feature in enumerate(features))
    return Item(f"i{name}", seen, {"u": place})


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collection, dict[str, Item]]]:
    """A collection behind a graph, in which rows were replaced and deleted since it was built."""
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((40, DIM))

    def items(names: range) -> list[Item]:
        middle = centres[rng.integers(0, 40, len(names))]
        features = (middle[:, None] + 0.6 * rng.standard_normal((len(names), 2, DIM))).astype(np.float32)
        return [one(name, some, float(rng.random())) for name, some in zip(names, features, strict=True)]

    plan = IndexPlan("HNSW16,SQ8", "cpu", RECALL, seal_at=ITEMS, flat_below=0)
    with Collection.open(tmp_path_factory.mktemp("indexed"), Sphere(DIM), plan=plan) as collection:
        held = items(range(ITEMS))
        collection.upsert(held)
        for engine in collection.engines._engines.values():
            engine.settle()  # type: ignore[attr-defined]
        assert (
            len(collection.search(query(feature(1).repeat(4), where=parse_filter({"u": {"gte": 0}})))) == 10
        )
        changed = items(range(ITEMS // 2, ITEMS // 2 + 300))
        collection.upsert(changed)
        gone = {f"i{name}" for name in range(0, ITEMS, 10)}
        collection.delete(sorted(gone))
        everything = {item.id: item for item in (*held, *changed) if item.id not in gone}
        yield collection, everything


@pytest.mark.parametrize("pooled", ["mean", "max"])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001, 0.0001])
def test_a_filter_costs_no_hit(
    indexed: tuple[Collection, dict[str, Item]], share: float, pooled: Pooling
) -> None:
    collection, held = indexed
    rng = np.random.default_rng(int(1 / share))
    good = total = 0
    for _ in range(QUERIES):
        where = random_filter(rng, share)
        passing = [item for item in held.values() if lets_through(where, item.payload)]
        vector = _unit(rng.standard_normal(DIM))
        asked = query(vector, limit=10, pool=pooled, where=parse_filter(where))
        hits = collection.search(asked)
        assert len(hits) == min(10, len(passing))
        scores = sorted((POOLED[pooled](vector, item) for item in passing), reverse=True)[:10]
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
