"""An index of the first numbers of vectors: it finds what an index of all does, and scores whole vectors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.index import generated_vectors
from benches.index.generated_vectors import VectorSet
from index.contracts import FLAT, IndexPlan, IndexPlanError
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import check_types
from index.engines.faiss_library import reduction_for, split_cut
from multifold.types import Metric
from tests.index.recalls import MARGIN, built, recall

ROWS, DIM, FIRST = 2000, 32, 16
PLAN = IndexPlan(f"first{FIRST},IVF{{cells}},SQ8", "cpu", 0.95, seal_at=1, flat_below=0)


def scene(*, turned: bool = True) -> VectorSet:
    """Unit vectors whose first numbers say most, or all numbers alike."""
    made = generated_vectors.sphere_vectors(ROWS, DIM, 200)
    weights = 0.8 ** np.arange(DIM) if turned else np.ones(DIM)

    def unit(vectors: np.ndarray) -> np.ndarray:
        weighted = vectors * weights
        return np.asarray(weighted / np.linalg.norm(weighted, axis=1, keepdims=True), np.float32)

    return VectorSet(unit(made.rows), unit(made.probes), unit(made.queries))


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_it_reaches_its_target_and_scores_whole_vectors(metric: Metric) -> None:
    things = scene()
    engine = built(things, metric, PLAN)
    (report,) = engine.reports()
    assert report.type.startswith(f"first{FIRST},IVF")
    assert report.recall >= 0.95
    some = np.flatnonzero(np.random.default_rng(1).random(ROWS) < 0.2)
    for limit, allowed in ((10, None), (40, None), (10, some)):
        assert recall(engine, things, metric, limit, allowed) >= 0.95 - MARGIN
    exact = ExactEngine(DIM, metric)
    exact.add(np.arange(ROWS), things.rows)
    asked = engine.search(things.queries, 10), exact.search(things.queries, 10)
    same = asked[0][1] == asked[1][1]
    np.testing.assert_allclose(asked[0][0][same], asked[1][0][same], atol=1e-6)
    engine.close()


def test_its_codes_are_as_short_as_what_it_reads() -> None:
    things = scene()
    sizes = []
    for name in ("first15,IVF{cells},SQ8", "IVF{cells},SQ8"):  # one number more is stored
        engine = built(things, "ip", IndexPlan(name, "cpu", 0.95, seal_at=1, flat_below=0))
        sizes.append(engine.reports()[0].bytes_per_row)
        engine.close()
    assert sizes[0] < sizes[1]


def test_whole_vectors_may_be_in_a_file(tmp_path: Path) -> None:
    things = scene()
    engine = FaissEngine(
        DIM, "ip", replace(PLAN, memory="codes"), ask=lambda _: things.probes, home=tmp_path / "home"
    )
    engine.add(np.arange(ROWS), things.rows)
    engine.settle()
    (report,) = engine.reports()
    assert report.file_bytes_per_row == 4 * DIM
    for allowed in (None, np.arange(0, ROWS, 2), np.arange(0, ROWS, 20)):
        assert recall(engine, things, "ip", 10, allowed) >= 0.95 - MARGIN
    engine.close()


def test_what_it_cannot_find_is_told_and_found_by_all_numbers() -> None:
    things = scene(turned=False)
    engine = built(things, "ip", IndexPlan("first1,HNSW16,SQ8", "cpu", 1.0, seal_at=1, flat_below=0))
    (report,) = engine.reports()
    assert report.type == FLAT
    assert [one.type for one in report.missed] == ["first1,HNSW16,SQ8"]
    assert recall(engine, things, "ip", 10, None) == 1.0
    engine.close()


def test_it_is_saved_and_rows_that_come_later_are_found(tmp_path: Path) -> None:
    things = scene()
    engine = FaissEngine(DIM, "ip", PLAN, ask=lambda _: things.probes)
    engine.add(np.arange(ROWS // 2), things.rows[: ROWS // 2])
    engine.settle()
    engine.save(tmp_path / "engine")
    engine.close()
    again = FaissEngine(DIM, "ip", PLAN, ask=lambda _: things.probes)
    again.load(tmp_path / "engine")
    again.add(np.arange(ROWS // 2, ROWS), things.rows[ROWS // 2 :])
    again.settle()
    assert all(report.type.startswith(f"first{FIRST},") for report in again.reports())
    assert recall(again, things, "ip", 10, None) >= 0.95 - MARGIN
    again.close()


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_distances_rank_as_the_first_numbers_do(metric: Metric) -> None:
    things = scene(turned=False)
    lengths = np.linalg.norm(things.rows, axis=1)
    made = reduction_for(metric, FIRST, lengths, cut=True)
    query = things.queries[:1]
    near = ((made.gallery(things.rows).astype(np.float64) - made.queries(query)) ** 2).sum(axis=1)
    rows, asked = things.rows[:, :FIRST].astype(np.float64), query[0, :FIRST]
    scores = rows @ asked if metric == "ip" else -((rows - asked) ** 2).sum(axis=1)
    assert (np.diff(scores[np.argsort(near)]) <= 1e-5).all()


@pytest.mark.parametrize("type", ["first0,HNSW16", "first32,HNSW16", "first99,IVF4,SQ8"])
def test_lengths_that_make_no_sense_are_refused(type: str) -> None:  # noqa: A002
    with pytest.raises(IndexPlanError, match="numbers of vectors of 32"):
        check_types(IndexPlan(type), DIM, on_gpu=False)


def test_other_types_read_all_numbers() -> None:
    assert split_cut("IVF4,SQ8", DIM) == (DIM, "IVF4,SQ8")
    assert split_cut("first8,IVF4,SQ8", DIM) == (8, "IVF4,SQ8")
