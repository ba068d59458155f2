"""Recall is measured with the queries that will come, reached in every geometry, never claimed in vain."""

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benches.index import generated_vectors
from benches.index.generated_vectors import VectorSet
from index.contracts import FLAT, IndexPlan
from index.engines import faiss_index, segment_search, tuning
from index.engines.exact_engine import view_of
from index.engines.faiss_index import FaissIndex
from index.engines.faiss_library import L2Reduction
from index.engines.search_setting import SearchSetting
from index.engines.segments import report_from_json
from index.engines.tuning import ProbeTruth
from multifold.types import Metric, Vectors
from tests.index.engines.built import MARGIN, built, exact_of, found, recall

ROWS, DIM = 1500, 32


def sphere(rows: int = ROWS) -> VectorSet:
    return generated_vectors.sphere_vectors(rows, DIM, 100)


def lorentz() -> VectorSet:
    """Points of the hyperboloid, around a radius of 2; queries have their signs already."""
    scene, rng = generated_vectors.sphere_vectors(ROWS, DIM - 1, 200), np.random.default_rng(1)
    signs = np.array([1.0] * (DIM - 1) + [-1.0], np.float32)

    def lifted(directions: Vectors) -> Vectors:
        radii = 2 * rng.uniform(0.5, 1.5, (len(directions), 1))
        return np.hstack([np.sinh(radii) * directions, np.cosh(radii)]).astype(np.float32)

    return VectorSet(lifted(scene.rows), lifted(scene.probes) * signs, lifted(scene.queries) * signs)


def cloud() -> VectorSet:
    """Signed vectors of very different lengths."""
    rng, scene = np.random.default_rng(5), sphere()
    rows = scene.rows * rng.lognormal(0, 0.7, (ROWS, 1)).astype(np.float32)
    return VectorSet(rows, scene.probes * 3, scene.queries * 3)


SCENES: dict[str, tuple[Callable[[], VectorSet], Metric]] = {
    "sphere": (sphere, "ip"),
    "euclidean": (cloud, "l2"),
    "lorentz": (lorentz, "ip"),
    "cloud": (cloud, "ip"),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("IVF{cells},RaBitQfs", "PQ16x4fs")]


@pytest.mark.parametrize("space", SCENES)
@pytest.mark.parametrize("type", ["HNSW16,SQ8", "IVF{cells},SQ8", *SLOW])
def test_every_geometry_reaches_its_target_and_a_filter_costs_no_hit(type: str, space: str) -> None:  # noqa: A002
    make, metric = SCENES[space]
    scene = make()
    engine = built(scene, metric, IndexPlan(type, "cpu", 0.95, seal_at=ROWS, flat_below=0))
    (report,) = engine.reports()
    assert report.probed_with == "queries"
    assert report.recall >= 0.95
    again = report_from_json(report.as_json())
    assert (str(again), again.as_json()) == (str(report), report.as_json())
    for limit in (10, 40):
        assert recall(engine, scene, metric, limit) >= 0.95 - MARGIN
    rng, centre = np.random.default_rng(1), scene.queries.mean(axis=0)
    farthest = np.argsort(scene.rows @ centre)
    for share in (0.5, 0.2, 0.1, 0.01, 0.001):
        anywhere, apart = np.flatnonzero(rng.random(ROWS) < share), farthest[: max(1, int(share * ROWS))]
        for allowed in (anywhere, np.sort(apart)):
            assert recall(engine, scene, metric, 10, allowed) >= 0.95 - MARGIN, share
    near = np.argsort(-scene.rows @ scene.queries[0])[: ROWS // 5]
    engine.remove(near)  # whole neighbourhoods
    exact = exact_of(scene.rows, metric, np.setdiff1d(np.arange(ROWS), near))
    for some in (None, np.arange(0, ROWS, 3), np.sort(farthest[: ROWS // 50])):
        assert found(engine, exact, scene.queries, 10, some) >= 0.95 - MARGIN
        assert not np.isin(engine.search(scene.queries, 10, some)[1], near).any()
    engine.close()


def test_threads_that_share_the_cells_of_a_query_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, plan = sphere(), IndexPlan("IVF{cells},SQ8", "cpu", 0.95, seal_at=1, flat_below=0)
    light = built(scene, "ip", plan)
    monkeypatch.setattr(faiss_index, "HEAVY", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    heavy = built(scene, "ip", plan)
    (one, *_), (other, *_) = light.parts, heavy.parts
    assert one.ann is not None
    assert other.ann is not None
    assert (one.ann.heavy, other.ann.heavy) == (False, True)
    assert other.ann.settings[0].effort == one.ann.settings[0].effort
    for query in scene.queries[:, None]:
        for answers in zip(light.search(query, 10), heavy.search(query, 10), strict=True):
            assert np.array_equal(*answers)
    light.close()
    heavy.close()


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_codes_of_allowed_rows_are_searched_and_none_is_missed(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a list of rows that nobody can write to is remembered, and rows that are removed are not found."""
    monkeypatch.setattr(segment_search, "SELECTION", 0)
    count = 8000
    scene, rng = sphere(count), np.random.default_rng(2)
    engine = built(scene, metric, IndexPlan("IVF128,SQ8", "cpu", 0.95, seal_at=count))
    axis, along = np.argsort(scene.rows[:, 0]), np.argsort(scene.rows @ scene.queries[0])
    for order in (rng.permutation(count), axis, along, along[::-1]):
        for some in (count // 4 - 200, count // 10):
            assert recall(engine, scene, metric, 10, np.sort(order[:some])) >= 0.95 - MARGIN
    allowed = np.arange(0, count, 5)
    for rest in (0, 1):
        assert (engine.search(scene.queries, 10, allowed)[1] % 5 == rest).all()
        allowed += 1
    allowed.flags.writeable = False
    for _ in range(2):
        best = engine.search(scene.queries, 10, allowed)[1][:, 0]
        engine.remove(best)
        assert not np.isin(engine.search(scene.queries, 10, allowed)[1], best).any()
    engine.close()


def test_the_fewer_rows_count_the_further_it_looks() -> None:
    setting = SearchSetting(10, 9, 16, 0.99, 0.0)
    efforts = [setting.within(share).effort for share in (1.0, 0.9, 0.5, 0.1)]
    assert efforts == [9, 11, 27, 171]
    assert setting.within(0.5).candidates > 2 * setting.candidates


def test_below_the_target_the_next_type_is_taken_and_said(caplog: pytest.LogCaptureFixture) -> None:
    rows = np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32)
    scene = VectorSet(rows, rows[:9], rows[:9])
    with caplog.at_level(logging.INFO, "index"):
        engine = built(scene, "l2", IndexPlan("LSH", "cpu", 1.0, 1, 0), asked=False)
    (report,) = engine.reports()
    assert report.type == FLAT
    assert [trial.type for trial in report.missed] == ["LSH"]
    assert "LSH reached only" in caplog.text
    assert (engine.search(rows[:50], 1)[1][:, 0] == np.arange(50)).all()
    engine.close()


CELLS, GRAPH = "IVF32,SQ8", "HNSW32,SQ8"


@pytest.mark.parametrize(
    ("strained", "fastest", "taken"), [(True, CELLS, CELLS), (True, GRAPH, GRAPH), (False, GRAPH, CELLS)]
)
def test_where_cells_strain_a_graph_is_tried_and_the_faster_taken(
    monkeypatch: pytest.MonkeyPatch, strained: bool, fastest: str, taken: str
) -> None:
    monkeypatch.setattr(FaissIndex, "strained", strained)
    monkeypatch.setattr(FaissIndex, "seconds", lambda ann: 1.0 if ann.type == fastest else 2.0)
    engine = built(sphere(), "ip", IndexPlan(recall=0.9, device="cpu", seal_at=ROWS, flat_below=0))
    (report,) = engine.reports()
    assert (report.type, report.missed) == (taken, ())
    engine.close()


def test_cells_strain_where_rows_have_no_neighbourhoods() -> None:
    rng = np.random.default_rng(0)
    anywhere = rng.standard_normal((2 * ROWS, DIM)).astype(np.float32)
    together = anywhere / 50 + rng.standard_normal((64, DIM), np.float32)[rng.integers(64, size=2 * ROWS)]
    for rows, strained in ((together, False), (anywhere, True)):
        scene = VectorSet(rows[:ROWS], rows[ROWS:][:200], rows[:9])
        engine = built(scene, "l2", IndexPlan("IVF{cells},SQ8", "cpu", 0.9, seal_at=ROWS, flat_below=0))
        (ann,) = (part.ann for part in engine.parts if part.ann is not None)
        assert ann.strained == strained
        engine.close()


def test_without_queries_rows_are_asked_and_left_out_of_their_own_answer() -> None:
    plan = IndexPlan("IVF{cells},Flat", "cpu", 0.9, seal_at=1, flat_below=0)
    engine = built(sphere(), "ip", plan, asked=False)
    (report,) = engine.reports()
    assert report.probed_with == "rows"
    assert 0.9 <= report.recall < 1  # one cell finds each row itself: that would be 1 at the least effort
    engine.close()


def truth(queries: int, limit: int) -> ProbeTruth:
    """Probes of a few rows, made up."""
    rows = view_of(np.arange(500), np.zeros((500, 2), np.float32))
    least, places = np.ones((queries, 1), np.float32), np.zeros((queries, limit), np.int64)
    return ProbeTruth("rows", "ip", rows, rows.vectors[:queries], None, limit, least, places)


Measured = Callable[[SearchSetting], tuple[float, float]]


def tuned(
    monkeypatch: pytest.MonkeyPatch, measured: Measured, efforts: tuple[int, int], most: int
) -> SearchSetting:
    """The setting that is chosen where each has this recall, this time, and surely so much."""

    def measure(_known: object, _ann: object, one: SearchSetting) -> tuple[SearchSetting, float]:
        recall, least = measured(one)
        return replace(one, recall=recall, seconds=one.effort + one.candidates / 100), least

    monkeypatch.setattr(ProbeTruth, "measure", measure)
    monkeypatch.setattr(FaissIndex, "efforts", efforts)
    monkeypatch.setattr(FaissIndex, "most", most)
    ann = FaissIndex("any", L2Reduction(2, None, lifted=False), None)
    return tuning.tune_setting(ann, truth(1, 10), 0.95)


@pytest.mark.parametrize(
    ("recalls", "chosen"),
    [
        ([(0.90, 0.88), (0.96, 0.94), (0.97, 0.955), (0.99, 0.98)], 3),  # the first that is sure
        ([(0.90, 0.88), (0.96, 0.94), (0.96, 0.94), (0.96, 0.94)], 2),  # none is: the first
        ([(0.90, 0.88), (0.93, 0.92), (0.94, 0.93), (0.92, 0.91)], 3),  # none reaches it: the best
    ],
)
def test_a_target_is_reached_by_a_standard_error_more(
    recalls: list[tuple[float, float]], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuned(monkeypatch, lambda one: recalls[one.effort - 1], (1, 4), 5).effort == chosen


@pytest.mark.parametrize(("most", "reach"), [(500, 161), (120, 120)])
def test_no_effort_is_tried_far_beyond_a_setting_that_finds_enough(
    most: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few candidates never reach the target; with more, the third effort does. One search gives `most`."""
    tried = list[tuple[int, int]]()

    def measured(one: SearchSetting) -> tuple[float, float]:
        tried.append((one.candidates, one.effort))
        return (1.0, 1.0) if one.candidates > 100 and one.effort > 2 else (0.9, 0.9)

    chosen = tuned(monkeypatch, measured, (1, 1000), most)
    assert (chosen.candidates, chosen.effort) == (reach, 3)
    assert tried[:3] == [(reach, 1), (reach, 2), (reach, 3)]
    assert max(effort for _, effort in tried) <= 6


def test_the_error_of_a_recall_is_that_of_its_queries() -> None:
    scores = np.array([[3, 2], [3, 0], [1, 1], [0, 0]], np.float32)
    shares = np.array([1.0, 0.5, 1.0, 0.0])
    recall = truth(4, 2).recall((scores, np.arange(8).reshape(4, 2)))
    assert recall == pytest.approx((shares.mean(), shares.std() / 2))
