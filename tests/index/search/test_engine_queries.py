"""Mixed queries against the weighted sum of scores, row by row, for every metric and sign of the sum."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.contracts import IndexPlan, QueryError
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.search import engine_queries
from multifold.types import Mix, Pooling
from tests.index.spaces import FEATURE, SPACE, SPACES, Space
from tests.index.things import answers, brute, feature, query, thing

WEIGHTS = {
    "positive": (1.0, 0.5, 0.25),
    "one negative": (1.0, 0.8, -0.6),
    "negative": (-1.0, 0.3, -0.6),
    "zero": (1.0, 0.5, -1.5),
    "nearly zero": (1.0, 0.5, -1.5 + 1e-9),
    "single": (2.5,),
}


@pytest.mark.parametrize("pooled", ["mean", "max"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=list(WEIGHTS))
@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.vector_id)
def test_a_mix_is_the_weighted_sum(
    tmp_path: Path, space: Space, weights: tuple[float, ...], pooled: Pooling
) -> None:
    rng = np.random.default_rng(5)
    items = [thing(f"item {n}", rng, views=int(rng.integers(1, 4))) for n in range(80)]
    vectors = space.vectors(rng.standard_normal((len(weights), FEATURE)).astype(np.float32))
    asked = query(Mix(tuple(zip(vectors, weights, strict=True))), limit=12, pool=pooled)
    with Collection.open(tmp_path, space) as collection:
        collection.upsert(items)
        for exact in (False, True):
            found, wanted = (
                answers(collection.search(replace(asked, exact=exact))),
                brute(items, space, asked),
            )
            assert [(name, *seen) for name, _, *seen in found] == [(name, *seen) for name, _, *seen in wanted]
            assert [one[1] for one in found] == pytest.approx([one[1] for one in wanted], rel=1e-5, abs=1e-5)


@given(seed=st.integers(0, 10**6), weight=st.sampled_from([-2.0, -0.5, 0.0]))
@settings(max_examples=20, deadline=None)
def test_a_scan_finds_what_looking_at_each_row_finds(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (20_000, 6)).astype(np.float32)  # many twins, several blocks
    vectors = rng.standard_normal((2, 6)).astype(np.float32)
    asked = engine_queries.vector_or_scan("l2", Mix(((vectors[0], 1.0), (vectors[1], weight - 1.0))), None)
    assert isinstance(asked, engine_queries.ScanQuery)
    wide = rows.astype(np.float64)
    sums = -np.square(wide - vectors[0]).sum(1) - (weight - 1) * np.square(wide - vectors[1]).sum(1)
    for engine in (ExactEngine(6, "l2"), FaissEngine(6, "l2", IndexPlan("Flat", "cpu", seal_at=5000))):
        engine.add(np.arange(20_000), rows)
        gone = rng.choice(20_000, 500, replace=False)
        engine.remove(gone)
        allowed = np.setdiff1d(np.flatnonzero(rng.random(20_000) < 0.7), gone)
        for chosen, filter_ in ((np.setdiff1d(np.arange(20_000), gone), None), (allowed, allowed)):
            scores, ids = asked.search(engine, 40, filter_)
            order = chosen[np.lexsort((chosen, -np.round(sums[chosen], 9)))][:40]
            assert scores == pytest.approx(sums[order].astype(np.float32), rel=1e-6, abs=1e-6)
            assert set(ids) <= set(chosen)
            assert len(set(ids)) == 40
        engine.close()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((), "1 to 64 parts, not 0"),
        (((feature(1), float("nan")),), "A weight lies"),
        (((feature(1), 1e9),), "A weight lies"),
        (((feature(1), 0.0), (feature(2), 0.0)), "all 0"),
        (((feature(1), 1.0), (feature(np.nan), 1.0)), "not finite"),
        (((feature(1)[:2], 1.0),), "shape"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(
    tmp_path: Path, parts: tuple[tuple[np.ndarray, float], ...], reason: str
) -> None:
    with Collection.open(tmp_path, SPACE) as collection, pytest.raises(QueryError, match=reason):
        collection.search(query(Mix(parts)))
