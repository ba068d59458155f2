"""Queries that are unlike the rows are found too: each looks as far as it has to, at last at every row."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.index.generated_vectors import VectorSet
from index.contracts import IndexPlan
from index.engines import served_queries, tuning
from index.engines.cell_tuning import CellTuner
from index.engines.faiss_engine import FaissEngine
from index.engines.search_setting import OrdinaryReach, StrangeReach
from index.engines.segment_search import search_segment
from multifold.types import Metric
from tests.index.engines.built import MARGIN, built, exact_of, found, measure_ordinary_queries
from tests.waiting import until


def clusters(rng: np.random.Generator, count: int, centres: np.ndarray) -> np.ndarray:
    near = centres[rng.integers(len(centres), size=count)]
    return near + 0.3 * rng.standard_normal(near.shape)


def plain(name: str, dim: int, count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows in clusters, as of a collection without an encoder, and queries that are unlike them."""
    rng = np.random.default_rng(3)
    here, elsewhere = rng.standard_normal((2, 64, dim))
    rows, other = (clusters(rng, count, centres) for count, centres in ((count, here), (100, elsewhere)))
    rows, other = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, other))
    if name == "lorentz":
        rows, other = (
            np.concatenate([part, np.sqrt(1 + (part**2).sum(axis=1, keepdims=True))], axis=1)
            for part in (rows * rng.uniform(1, 1.5, (len(rows), 1)), other)
        )
    some, noise = rows[:100], rng.standard_normal((100, rows.shape[1]))
    kinds = {
        "other clusters": other,
        "outliers": some + 100 * noise,
        "sums": some + rows[-100:],
        "noise": noise,
        "long": 1000 * some,
        "one-hot": np.eye(rows.shape[1])[rng.integers(rows.shape[1], size=100)],
        "negated": -some,
    }
    return rows.astype(np.float32), {kind: part.astype(np.float32) for kind, part in kinds.items()}


PLAN = IndexPlan("IVF{cells},SQ8", "cpu", seal_at=1, flat_below=0)


def index_of(rows: np.ndarray, type: str = "IVF{cells},SQ8", metric: Metric = "ip") -> FaissEngine:  # noqa: A002
    """An index that no query is known for when it is built."""
    plan = IndexPlan(type, "cpu", 0.95, seal_at=1, flat_below=0)
    return built(VectorSet(rows, rows[:9], rows[:9]), metric, plan, asked=False)


@pytest.mark.parametrize("type", ["IVF{cells},SQ8", "HNSW32,SQ8"])
@pytest.mark.parametrize(("space", "metric"), [("cosine", "ip"), ("cosine", "l2"), ("lorentz", "ip")])
def test_queries_that_are_unlike_the_rows_are_found_too(space: str, metric: Metric, type: str) -> None:  # noqa: A002
    rows, kinds = plain(space, 32, 6000)
    engine, exact = index_of(rows, type, metric), exact_of(rows, metric)
    (report,) = engine.reports()
    assert report.probed_with == "rows"
    assert all(setting.hardest and setting.recall >= 0.95 for setting in report.settings)
    shares = {kind: found(engine, exact, queries, 10) for kind, queries in kinds.items()}
    assert {kind: share for kind, share in shares.items() if share < 0.95 - MARGIN} == {}
    engine.close()


WIDE, KINDS = plain("cosine", 192, 4000)
UNLIKE = KINDS["other clusters"]


@pytest.fixture(scope="module")
def wide() -> Iterator[FaissEngine]:
    engine = index_of(WIDE)
    yield engine
    engine.close()


def test_a_fixed_effort_misses_what_looking_further_finds(wide: FaissEngine) -> None:
    """Of those alone that need it: ordinary queries take a few cells more than the first, if any."""
    part = wide.parts[0]
    assert part.ann is not None
    how = part.ann.setting(10)
    truth = search_segment(part, "ip", UNLIKE, 10, None, replace(how, far=0.0))[0][:, -1:]
    before = search_segment(part, "ip", UNLIKE, 10, None, replace(how, ordinary=None, far=None))[0]
    assert np.mean(before >= truth) < 0.9
    assert np.mean(search_segment(part, "ip", UNLIKE, 10)[0] >= truth) > 0.95 - MARGIN
    assert how.visited < 4 * how.effort


def test_each_query_looks_as_far_as_it_would_alone(wide: FaissEngine) -> None:
    part = wide.parts[0]
    assert part.ann is not None
    how = replace(part.ann.setting(10), far=None)
    both = np.concatenate([UNLIKE[:50], WIDE[:50]])
    first = search_segment(part, "ip", both, 10, None, replace(how, ordinary=None))[0]
    cells = part.ann.cells_within_reach(both, part.ann.distances(both, first[:, -1]), how)
    assert cells is not None
    counts = (cells >= 0).sum(axis=1)
    assert counts[:50].mean() > 4 * counts[50:].mean()
    together = search_segment(part, "ip", both, 10, None, how)
    alone = [search_segment(part, "ip", both[place : place + 1], 10, None, how) for place in range(len(both))]
    for all_of_them in zip(together, zip(*alone, strict=True), strict=True):
        assert np.array_equal(all_of_them[0], np.concatenate(all_of_them[1]))


def test_where_codes_hide_rows_strange_queries_score_more_candidates() -> None:
    engine = index_of(WIDE, "IVF{cells},SQ4")
    part = engine.parts[0]
    assert part.ann is not None
    few = replace(
        part.ann.setting(10),
        candidates=11,
        ordinary=OrdinaryReach(-1.0, 100.0),
        strange=StrangeReach(100.0),
        far=None,
    )
    (truths,) = tuning.probe_truths("ip", part.rows, {"noise": KINDS["noise"]}, (10,), {})
    ways = [replace(few, strange=StrangeReach(100.0, times)) for times in (1, 9)]
    recalls = [truths[0].recall(truths[0].search(part.ann, way))[0] for way in ways]
    assert recalls[0] < 0.99
    assert recalls[1] >= 0.99
    ids = search_segment(part, "ip", KINDS["noise"], 10, None, ways[1])[1]
    assert all(len(set(row)) == 10 for row in ids.tolist())
    engine.close()


def clouds(count: int, dim: int) -> np.ndarray:
    """Random Fourier features of clouds of points, in the mean of each cloud."""
    rng = np.random.default_rng(3)
    shapes = rng.standard_normal((500, 16, 3)) * rng.uniform(0.2, 1, (500, 1, 3))
    points = shapes[rng.integers(500, size=count)] + 0.1 * rng.standard_normal((count, 16, 3))
    angles = points @ (rng.standard_normal((3, dim)) / 2) + rng.uniform(0, 2 * np.pi, dim)
    return np.asarray(np.cos(angles).mean(axis=1) * np.sqrt(2 / dim), np.float32)


def strange(rows: np.ndarray) -> dict[str, np.ndarray]:
    some, others = rows[:100], rows[-100:]
    single = np.eye(rows.shape[1], dtype=np.float32)[:100]
    half = np.where(np.arange(rows.shape[1]) % 2, some, np.float32(0))
    kinds = {"single": single, "less": -single, "negated": -some, "long": 1e4 * some, "half": half}
    return kinds | {"sums": some + others, "differences": some - others, "short": 1e-4 * some}


@pytest.mark.parametrize(("metric", "make"), [("ip", clouds), ("l2", clouds), ("l2", plain)])
def test_probes_that_are_easy_hide_nothing(metric: Metric, make: Callable[..., Any]) -> None:
    """The caller's probes are the rows themselves; queries that no probe is like are found nevertheless."""
    rows = make(6000, 64) if make is clouds else make("cosine", 64, 6000)[0]
    engine, exact = FaissEngine(64, metric, PLAN, ask=lambda count: rows[:count]), exact_of(rows, metric)
    engine.add(np.arange(len(rows)), rows)
    engine.settle()
    assert engine.reports()[0].probed_with == "queries"
    shares = {kind: found(engine, exact, queries, 10) for kind, queries in strange(rows).items()}
    assert {kind: share for kind, share in shares.items() if share < 0.99 - MARGIN / 2} == {}
    engine.close()


@pytest.mark.parametrize("type", ["IVF{cells},SQ8", "HNSW32,SQ8"])
def test_what_is_unlike_all_that_was_measured_is_compared_with_every_row(type: str) -> None:  # noqa: A002
    engine, exact = index_of(WIDE, type, "l2"), exact_of(WIDE, "l2")
    engine.search(WIDE[:100], 10)
    assert engine.served.unlike == 0
    far = 1e4 * KINDS["noise"]
    assert found(engine, exact, far, 10) == 1
    assert engine.served.unlike == len(far)
    engine.close()


def test_parts_that_were_sealed_with_ordinary_queries_learn_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From queries that come, which are asked exactly too; and at once, where such a part is loaded."""
    monkeypatch.setattr(served_queries, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(served_queries, "SHARE", 0)
    with monkeypatch.context() as former:
        former.setattr(CellTuner, "tune", measure_ordinary_queries)
        engine = index_of(WIDE)
        engine.save(tmp_path / "rows")

    def ask() -> bool:
        for query in UNLIKE[:40]:
            engine.search(query[None], 10)
        return engine.parts[0].ann is not None and engine.parts[0].ann.settings[0].far is not None

    before, exact = engine.seals, exact_of(WIDE)
    until(ask)
    engine.settle()
    assert engine.seals > before
    assert found(engine, exact, UNLIKE, 10) > 0.95 - MARGIN
    until(lambda: ask() and engine.served.recall() is not None)
    served = engine.served.recall()
    assert served is not None
    assert served.answers >= served_queries.TELLING_QUERIES
    again = FaissEngine(WIDE.shape[1], "ip", IndexPlan("IVF{cells},SQ8", "cpu", 0.95, 1, 0))
    again.load(tmp_path / "rows")
    again.settle()
    assert found(again, exact, UNLIKE, 10) > 0.95 - MARGIN
    assert [setting.hardest != "" for setting in again.reports()[0].settings] == [True, True]
    for one in (engine, again):
        one.close()
