"""Grouped search: as many items as were asked for where there are as many, however crowded some are."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.contracts import IndexPlan
from index.store.filters import parse_filter
from multifold.types import Item, Observation
from tests.index.filtering import lets_through
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import query

CROWD = 300


def crowded(rng: np.random.Generator, count: int) -> list[Item]:
    """Items of one to hundreds of observations; the largest crowds lie nearest to where the queries are."""
    items = []
    for name in range(count):
        size = CROWD // (name + 1) + 1
        near = np.eye(FEATURE)[0] + 0.1 * name * rng.standard_normal((size, FEATURE))
        seen = [Observation("view", n, row) for n, row in enumerate(near.astype(np.float32))]
        items.append(Item(f"i{name}", tuple(seen), {"n": name, "odd": name % 2 == 1}))
    return items


@pytest.mark.parametrize("type", ["exact", "HNSW8,SQ8", "IVF{cells},SQ8"])
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    where=st.sampled_from([None, {}, {"odd": True}, {"n": {"gte": 20}}, {"n": 3}, {"n": {"in": [0, 39]}}]),
)
@settings(max_examples=5, deadline=None)
def test_no_crowd_keeps_an_item_out(type: str, seed: int, count: int, where: Any) -> None:  # noqa: A002, ANN401
    rng = np.random.default_rng(seed)
    plan = IndexPlan(type, "cpu", 0.9, seal_at=100, flat_below=0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.open(Path(folder), SPACE, plan=plan) as collection,
    ):
        items = crowded(rng, count)
        collection.upsert(items)
        collection.delete([item.id for item in items[: count // 3 : 2]])
        left = {item.id for item in items if collection.get(item.id)}
        passing = {item.id for item in items if item.id in left and lets_through(where or {}, item.payload)}
        for limit in (1, 5, 39, 100):
            chosen = None if where is None else parse_filter(where)
            hits = collection.search(query(np.eye(FEATURE)[0], limit=limit, pool="max", where=chosen))
            assert len({hit.id for hit in hits}) == len(hits) == min(limit, len(passing))
            assert {hit.id for hit in hits} <= passing
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
