"""Queries that are unlike the rows are found too: an answer that is not sure is looked for further."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.index.generated_vectors import VectorSet
from index.contracts import IndexPlan
from index.engines import builder, served_queries, tuning
from index.engines.faiss_engine import FaissEngine
from multifold.types import Metric
from tests.index.engines.built import MARGIN, built, exact_of, found
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
    part = wide.parts[0]
    assert part.ann is not None
    how = part.ann.setting(10)
    truth = part.search("ip", UNLIKE, 10, None, replace(how, doubt=np.inf, cosine=None))[0][:, -1:]
    before = part.search("ip", UNLIKE, 10, None, replace(how, doubt=None))[0]
    assert np.mean(before >= truth) < 0.9
    assert np.mean(part.search("ip", UNLIKE, 10)[0] >= truth) > 0.95 - MARGIN
    ordinary = part.search("ip", WIDE[:200], 10, None, replace(how, doubt=None))[0]
    assert how.doubt is not None
    sureness = np.array(part.ann.sureness(WIDE[:200], ordinary[:, -1], how.effort))
    assert np.mean(sureness <= how.doubt) < 0.1


def test_each_unsure_query_looks_as_far_as_it_would_alone(wide: FaissEngine) -> None:
    part = wide.parts[0]
    assert part.ann is not None
    how = replace(part.ann.setting(10), doubt=np.inf)  # no answer is sure
    last = part.search("ip", UNLIKE, 10, None, replace(how, doubt=None))[0][:, -1]
    efforts = part.ann.efforts_within(UNLIKE, last, how.cosine)
    assert efforts is not None
    assert 1 <= efforts.min() < efforts.max() <= part.ann.efforts()[1]
    together = part.search("ip", UNLIKE, 10, None, how)
    alone = [part.search("ip", UNLIKE[place : place + 1], 10, None, how) for place in range(len(UNLIKE))]
    for both in zip(together, zip(*alone, strict=True), strict=True):
        assert np.array_equal(both[0], np.concatenate(both[1]))


def test_where_codes_hide_rows_more_candidates_are_scored_not_every_row() -> None:
    engine = index_of(WIDE, "IVF{cells},SQ4")
    part = engine.parts[0]
    assert part.ann is not None
    few = replace(part.ann.setting(10), candidates=11, doubt=None, cosine=None)
    (truths,) = tuning.probe_truths("ip", part.rows, {"noise": KINDS["noise"]}, (10,), {})
    every_cell = replace(few, effort=part.ann.efforts()[1])
    assert truths[0].recall(truths[0].search(part.ann, every_cell))[0] < 0.99
    how = tuning.secure_setting(part.ann, few, truths, 0.99)
    assert how.further > 1
    assert how.cosine is not None
    assert truths[0].recall(truths[0].search(part.ann, how))[0] >= 0.99
    engine.close()


def as_if_all_were_fine(_ann: object, setting: object, *_: object) -> object:
    """What earlier versions did: they measured ordinary queries alone."""
    return setting


def test_parts_that_were_sealed_with_ordinary_queries_learn_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From queries that come, which are asked exactly too; and at once, where such a part is loaded."""
    monkeypatch.setattr(served_queries, "PAUSE", 0.0)
    monkeypatch.setattr(served_queries, "SHARE", 0)
    with monkeypatch.context() as former:
        former.setattr(builder, "secure_setting", as_if_all_were_fine)
        engine = index_of(WIDE)
        engine.save(tmp_path / "rows")

    def ask() -> bool:
        for query in UNLIKE[:40]:
            engine.search(query[None], 10)
        return engine.parts[0].ann is not None and engine.parts[0].ann.settings[0].doubt is not None

    before, exact = engine.seals, exact_of(WIDE)
    until(ask)
    engine.settle()
    assert engine.seals > before
    assert found(engine, exact, UNLIKE, 10) > 0.95 - MARGIN
    until(lambda: ask() and engine.served.recall() is not None)
    served = engine.served.recall()
    assert served is not None
    assert served.answers >= served_queries.FEWEST
    again = FaissEngine(WIDE.shape[1], "ip", IndexPlan("IVF{cells},SQ8", "cpu", 0.95, 1, 0))
    again.load(tmp_path / "rows")
    again.settle()
    assert found(again, exact, UNLIKE, 10) > 0.95 - MARGIN
    assert [setting.hardest != "" for setting in again.reports()[0].settings] == [True, True]
    for one in (engine, again):
        one.close()
