"""A geometry that no engine has: hits come in the order, and with the scores, of its own similarity."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from jaxtyping import Float32, Float64

from index.collection import Collection
from index.contracts import IndexPlan
from index.search import engine_queries, ranking
from index.search.query import Query
from index.store.filters import parse_filter
from multifold.types import Item, Metric, Mix, Pooling, Vector, Vectors, pool_mean
from tests.index.spaces import FEATURE
from tests.index.things import query, thing


@dataclass(frozen=True)
class Geodesic:
    """Two circles side by side, and the length of the shortest way between two points."""

    dim: int = FEATURE
    vector_id: str = "geodesic"
    metric: ClassVar[Metric] = "ip"
    query_signs: ClassVar[Vector | None] = None
    rescores: ClassVar[bool] = True

    def vectors(self, features: Vectors) -> Vectors:
        parts = features.reshape(len(features), 2, -1)
        return np.asarray(parts / np.linalg.norm(parts, axis=2, keepdims=True), np.float32).reshape(
            features.shape
        )

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        cosines = (query[:, None] * candidates).reshape(*candidates.shape[:2], 2, -1).sum(-1)
        return np.asarray(-np.sqrt(np.square(np.arccos(cosines.clip(-1, 1))).sum(-1)), np.float32)


SPACE = Geodesic()


def things(count: int) -> list[Item]:
    rng = np.random.default_rng(3)
    return [thing(f"item {n:04}", rng, views=int(rng.integers(1, 4))) for n in range(count)]


def vectors(count: int) -> Vectors:
    return SPACE.vectors(np.random.default_rng(4).standard_normal((count, FEATURE)).astype(np.float32))


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
    items, asked = things(300), vectors(len(weights))
    mixed = asked[0] if len(weights) == 1 else Mix(tuple(zip(asked, weights, strict=True)))
    wanted = query(mixed, limit=20, pool=pool)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        hits = collection.search(wanted)
    assert [(hit.id, hit.matched.index) for hit in hits] == [
        (name, view) for name, _, view in truth(items, wanted)
    ]
    assert [hit.score for hit in hits] == pytest.approx([one[1] for one in truth(items, wanted)], abs=1e-5)


@pytest.mark.parametrize(
    "plan", [IndexPlan("exact"), IndexPlan("Flat", "cpu", seal_at=40)], ids=["exact", "sealed"]
)
def test_pages_follow_each_other_and_every_row_may_be_looked_at(
    tmp_path: Path, plan: IndexPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With eight candidates at a time: pages of five of one order, in which every item stands once."""
    monkeypatch.setattr(engine_queries, "RESCORE_DEPTH", 8)
    monkeypatch.setattr(ranking, "RING", 8)
    items, (asked,) = things(100), vectors(2)[1:]
    with Collection.open(tmp_path, SPACE, plan=plan) as collection:
        collection.upsert(items)
        collection.engines.settle()
        whole = [hit.id for hit in collection.search(query(asked, limit=100))]
        pages = [collection.search(query(asked, limit=5, offset=start)) for start in range(0, 100, 5)]
        assert [hit.id for page in pages for hit in page] == whole
        assert sorted(whole) == [item.id for item in items]
        all_rows = collection.search(query(asked, limit=10, exact=True))
    assert [hit.id for hit in all_rows] == [name for name, *_ in truth(items, query(asked, limit=10))]
    assert whole[:10] != [hit.id for hit in all_rows]  # eight candidates are too few here


def test_a_filter_costs_no_hit(tmp_path: Path) -> None:
    items, (asked,) = things(60), vectors(1)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        kept = {"name": {"in": [item.id for item in items[::3]]}}
        hits = collection.search(query(asked, limit=20, where=parse_filter(kept)))
    assert [hit.id for hit in hits] == [name for name, *_ in truth(items[::3], query(asked, limit=20))]
