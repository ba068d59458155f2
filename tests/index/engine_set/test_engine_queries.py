"""Queries beyond one vector: mixes against the weighted sum of scores, and the geometry's own similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float32, Float64

from index.collection import Collection
from index.contracts import IndexPlan
from index.engine_set import engine_queries
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.search import candidates
from index.search.query import Query
from index.store.filters import parse_filter
from multifold.types import Item, Metric, Mix, Pooling, Side, Vector, Vectors, pool_mean
from tests.index.spaces import FEATURE, SPACES, Space
from tests.index.things import answers, brute, query, thing

WEIGHTS = {
    "positive": (1.0, 0.5, 0.25),
    "one negative": (1.0, 0.8, -0.6),
    "negative": (-1.0, 0.3, -0.6),
    "zero": (1.0, 0.5, -1.5),
    "nearly zero": (1.0, 0.5, -1.5 + 1e-9),
    "single": (2.5,),
}


def things(count: int) -> list[Item]:
    rng = np.random.default_rng(3)
    return [thing(f"item {n:04}", rng, views=int(rng.integers(1, 4))) for n in range(count)]


def features(count: int) -> Vectors:
    return np.random.default_rng(4).standard_normal((count, FEATURE)).astype(np.float32)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.vector_id)
def test_a_mix_is_the_weighted_sum(tmp_path: Path, space: Space) -> None:
    items = things(80)
    with Collection.open(tmp_path, space) as collection:
        collection.upsert(items)
        for weights in WEIGHTS.values():
            mix = Mix(tuple(zip(space.vectors(features(len(weights))), weights, strict=True)))
            for pooled in ("mean", "max"):
                asked = query(mix, limit=12, pool=pooled)
                wanted = brute(items, space, asked)
                for exact in (False, True):
                    found = answers(collection.search(replace(asked, exact=exact)))
                    assert [(one[0], *one[2:]) for one in found] == [(one[0], *one[2:]) for one in wanted]
                    scores = pytest.approx([one[1] for one in wanted], rel=1e-5, abs=1e-5)
                    assert [one[1] for one in found] == scores


@given(seed=st.integers(0, 10**6), weight=st.sampled_from([-2.0, -0.5, 0.0]))
@settings(max_examples=10, deadline=None)
def test_a_scan_finds_what_looking_at_each_row_finds(seed: int, weight: float) -> None:
    rng, count = np.random.default_rng(seed), 10_000
    rows = rng.integers(-2, 3, (count, 6)).astype(np.float32)  # many twins, several blocks
    vectors = rng.standard_normal((2, 6)).astype(np.float32)
    asked = engine_queries.vector_or_scan("l2", Mix(((vectors[0], 1.0), (vectors[1], weight - 1.0))), None)
    assert isinstance(asked, engine_queries.ScanQuery)
    wide = rows.astype(np.float64)
    sums = -np.square(wide - vectors[0]).sum(1) - (weight - 1) * np.square(wide - vectors[1]).sum(1)
    for engine in (ExactEngine(6, "l2"), FaissEngine(6, "l2", IndexPlan("Flat", "cpu", seal_at=5000))):
        engine.add(np.arange(count), rows)
        gone = rng.choice(count, 500, replace=False)
        engine.remove(gone)
        allowed = np.setdiff1d(np.flatnonzero(rng.random(count) < 0.7), gone)
        for chosen, filter_ in ((np.setdiff1d(np.arange(count), gone), None), (allowed, allowed)):
            scores, ids = asked.search(engine, 40, filter_)
            order = chosen[np.lexsort((chosen, -np.round(sums[chosen], 9)))][:40]
            assert scores == pytest.approx(sums[order].astype(np.float32), rel=1e-6, abs=1e-6)
            assert set(ids) <= set(chosen)
            assert len(set(ids)) == 40
        engine.close()


@dataclass(frozen=True)
class Geodesic:
    """Two circles side by side, and the length of the shortest way between two points: no engine has that."""

    dim: int = FEATURE
    vector_id: str = "geodesic"
    metric: ClassVar[Metric] = "ip"
    query_signs: ClassVar[Vector | None] = None
    sees: ClassVar[Mapping[Side, float]] = {}
    alike: ClassVar[Mapping[Side, float]] = {}
    rescores: ClassVar[bool] = True

    def vectors(self, features: Vectors) -> Vectors:
        parts = features.reshape(len(features), 2, -1)
        unit = parts / np.linalg.norm(parts, axis=2, keepdims=True)
        return np.asarray(unit, np.float32).reshape(features.shape)

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        cosines = (query[:, None] * candidates).reshape(*candidates.shape[:2], 2, -1).sum(-1)
        return np.asarray(-np.sqrt(np.square(np.arccos(cosines.clip(-1, 1))).sum(-1)), np.float32)


SPACE = Geodesic()


def truth(items: Sequence[Item], asked: Query) -> list[tuple[str, float, int]]:
    """Each item, its similarity, and its view that is nearest, by looking at all of them."""
    parts = asked.vector.parts if isinstance(asked.vector, Mix) else ((asked.vector, 1.0),)

    def like(rows: Vectors) -> Float64[np.ndarray, " b"]:
        scores = np.zeros(len(rows))
        for part, weight in parts:
            scores += weight * SPACE.rescore(part[None], rows[None])[0]
        return scores

    told = []
    for item in items:
        seen = np.stack([one.feature for one in item.observations if one.kind == "view"])
        each = like(SPACE.vectors(seen))
        pooled = like(SPACE.vectors(pool_mean(seen)[None]))[0] if asked.pool == "mean" else each.max()
        told.append((item.id, float(pooled), int(each.argmax())))
    return sorted(told, key=lambda one: -one[1])[asked.offset :][: asked.limit]


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.5), (1.0, -0.4)], ids=["one", "mix", "less of one"])
def test_hits_come_by_the_similarity_of_the_geometry(
    tmp_path: Path, weights: tuple[float, ...], pool: Pooling
) -> None:
    items, asked = things(200), SPACE.vectors(features(len(weights)))
    mixed = asked[0] if len(weights) == 1 else Mix(tuple(zip(asked, weights, strict=True)))
    kept = parse_filter({"name": {"in": [item.id for item in items[::3]]}})
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        for where, among in ((None, items), (kept, items[::3])):
            wanted = query(mixed, limit=20, pool=pool, where=where)
            hits, told = collection.search(wanted), truth(among, wanted)
            assert [(hit.id, hit.matched.index) for hit in hits] == [(name, view) for name, _, view in told]
            assert [hit.score for hit in hits] == pytest.approx([one[1] for one in told], abs=1e-5)


@pytest.mark.parametrize(
    "plan", [IndexPlan("exact"), IndexPlan("Flat", "cpu", seal_at=40)], ids=["exact", "sealed"]
)
def test_pages_follow_each_other_and_every_row_may_be_looked_at(
    tmp_path: Path, plan: IndexPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With eight candidates at a time: pages of five of one order, in which every item stands once."""
    monkeypatch.setattr(engine_queries, "RESCORE_DEPTH", 8)
    monkeypatch.setattr(candidates, "RING", 8)
    items, asked = things(100), SPACE.vectors(features(2))[1]
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        collection.upsert(items)
        collection.engines.settle()
        whole = [hit.id for hit in collection.search(query(asked, limit=100))]
        pages = [collection.search(query(asked, limit=5, offset=start)) for start in range(0, 100, 5)]
        assert [hit.id for page in pages for hit in page] == whole
        assert sorted(whole) == [item.id for item in items]
        all_rows = [hit.id for hit in collection.search(query(asked, limit=10, exact=True))]
    assert all_rows == [name for name, *_ in truth(items, query(asked, limit=10))]
    assert whole[:10] != all_rows  # eight candidates are too few here
