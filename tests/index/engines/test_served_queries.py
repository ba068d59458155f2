"""Queries that are unlike the rows are found too: an answer that is not sure is looked for further."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.index.generated_vectors import VectorSet
from index.contracts import IndexPlan
from index.engines import builder, served_queries, tuning
from index.engines.faiss_engine import FaissEngine
from multifold.types import Metric
from tests.index.engines.recalls import MARGIN, built, recall
from tests.waiting import until

DIM = 32


def clusters(rng: np.random.Generator, count: int, centres: np.ndarray) -> np.ndarray:
    near = centres[rng.integers(len(centres), size=count)]
    return near + 0.3 * rng.standard_normal(near.shape)


def plain(name: str, dim: int = DIM) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows in clusters, as of a collection without an encoder, and queries that are unlike them."""
    rng = np.random.default_rng(3)
    here, elsewhere = rng.standard_normal((2, 64, dim))
    rows, other = (clusters(rng, count, centres) for count, centres in ((6000, here), (100, elsewhere)))
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


def index_of(rows: np.ndarray, type: str = "IVF{cells},SQ8") -> FaissEngine:  # noqa: A002
    """An index that no query is known for when it is built."""
    plan = IndexPlan(type, "cpu", 0.95, seal_at=1, flat_below=0)
    return built(VectorSet(rows, rows[:9], rows[:9]), "ip", plan, asked=False)


@pytest.mark.parametrize("type", ["IVF{cells},SQ8", "HNSW32,SQ8"])
@pytest.mark.parametrize(("space", "metric"), [("cosine", "ip"), ("cosine", "l2"), ("lorentz", "ip")])
def test_queries_that_are_unlike_the_rows_are_found_too(space: str, metric: Metric, type: str) -> None:  # noqa: A002
    rows, kinds = plain(space)
    scene = VectorSet(rows, rows[:9], rows[:9])
    engine = built(scene, metric, IndexPlan(type, "cpu", 0.95, seal_at=1, flat_below=0), asked=False)
    (report,) = engine.reports()
    assert report.probed_with == "rows"
    assert all(setting.hardest and setting.recall >= 0.95 for setting in report.settings)
    found = {
        kind: recall(engine, replace(scene, queries=queries), metric, 10, None)
        for kind, queries in kinds.items()
    }
    assert {kind: share for kind, share in found.items() if share < 0.95 - MARGIN} == {}
    engine.close()


def test_a_fixed_effort_misses_what_looking_further_finds() -> None:
    rows, kinds = plain("cosine", 192)
    engine = index_of(rows)
    part, queries = engine.parts[0], kinds["other clusters"]
    assert part.ann is not None
    how = part.ann.setting(10)
    truth = part.search("ip", queries, 10, None, replace(how, doubt=np.inf, cosine=None))[0][:, -1:]
    before = part.search("ip", queries, 10, None, replace(how, doubt=None))[0]
    assert np.mean(before >= truth) < 0.9
    assert np.mean(part.search("ip", queries, 10)[0] >= truth) > 0.95 - MARGIN
    ordinary = part.search("ip", rows[:200], 10, None, replace(how, doubt=None))[0]
    assert how.doubt is not None
    sureness = np.array(part.ann.sureness(rows[:200], ordinary[:, -1], how.effort))
    assert np.mean(sureness <= how.doubt) < 0.1
    engine.close()


def test_each_unsure_query_looks_as_far_as_it_would_alone() -> None:
    rows, kinds = plain("cosine", 192)
    engine = index_of(rows)
    part, queries = engine.parts[0], kinds["other clusters"]
    assert part.ann is not None
    how = replace(part.ann.setting(10), doubt=np.inf)  # no answer is sure
    last = part.search("ip", queries, 10, None, replace(how, doubt=None))[0][:, -1]
    efforts = part.ann.efforts_within(queries, last, how.cosine)
    assert efforts is not None
    assert 1 <= efforts.min() < efforts.max() <= part.ann.efforts()[1]
    together = part.search("ip", queries, 10, None, how)
    alone = [part.search("ip", queries[place : place + 1], 10, None, how) for place in range(len(queries))]
    for both in zip(together, zip(*alone, strict=True), strict=True):
        assert np.array_equal(both[0], np.concatenate(both[1]))
    engine.close()


def test_where_codes_hide_rows_more_candidates_are_scored_not_every_row() -> None:
    rows, kinds = plain("cosine", 192)
    engine = index_of(rows, "IVF{cells},SQ4")
    part = engine.parts[0]
    assert part.ann is not None
    few = replace(part.ann.setting(10), candidates=11, doubt=None, cosine=None)
    (truths,) = tuning.probe_truths("ip", part.rows, {"noise": kinds["noise"]}, (10,), {})
    every_cell = replace(few, effort=part.ann.efforts()[1])
    assert truths[0].recall(truths[0].search(part.ann, every_cell))[0] < 0.99
    how = tuning.secure_setting(part.ann, few, truths, 0.99)
    assert how.further > 1
    assert how.cosine is not None
    assert truths[0].recall(truths[0].search(part.ann, how))[0] >= 0.99
    engine.close()


def test_queries_that_came_are_asked_exactly_and_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "secure_setting", lambda _ann, setting, *_: setting)  # as if all were fine
    monkeypatch.setattr(served_queries, "PAUSE", 0.0)
    monkeypatch.setattr(served_queries, "SHARE", 0)
    rows, kinds = plain("cosine", 192)
    engine = index_of(rows)
    monkeypatch.undo()
    monkeypatch.setattr(served_queries, "PAUSE", 0.0)
    monkeypatch.setattr(served_queries, "SHARE", 0)
    queries = kinds["other clusters"]

    def ask() -> bool:
        for query in queries:
            engine.search(query[None], 10)
        return engine.parts[0].ann is not None and engine.parts[0].ann.settings[0].doubt is not None

    before = engine.seals
    until(ask)
    engine.settle()
    assert engine.seals > before
    scene = VectorSet(rows, rows[:9], queries)
    assert recall(engine, scene, "ip", 10, None) > 0.95 - MARGIN
    until(lambda: ask() and engine.served.recall() is not None)
    served = engine.served.recall()
    assert served is not None
    assert served.answers >= served_queries.FEWEST
    engine.close()


def test_what_was_sealed_with_ordinary_queries_alone_is_measured_with_others_once_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, kinds = plain("cosine", 192)
    plan = IndexPlan("IVF{cells},SQ8", "cpu", 0.95, seal_at=1, flat_below=0)
    with monkeypatch.context() as before:
        before.setattr(builder, "secure_setting", lambda _ann, setting, *_: setting)
        old = built(VectorSet(rows, rows[:9], rows[:9]), "ip", plan, asked=False)
        old.save(tmp_path / "rows")
        old.close()
    engine = FaissEngine(rows.shape[1], "ip", plan)
    engine.load(tmp_path / "rows")
    engine.settle()
    assert recall(engine, VectorSet(rows, rows, kinds["other clusters"]), "ip", 10, None) > 0.95 - MARGIN
    assert [setting.hardest != "" for setting in engine.reports()[0].settings] == [True, True]
    engine.close()
