"""Recall is measured with the queries that will come, reached in every geometry, never claimed in vain."""

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benches.index import generated_vectors
from benches.index.generated_vectors import VectorSet
from index.contracts import FLAT, Ids, IndexPlan
from index.engines import faiss_index, segments, tuning
from index.engines.exact_engine import ExactEngine, view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import FaissIndex, SearchSetting
from index.engines.faiss_library import L2Reduction
from index.engines.segments import SegmentReport, report_from_json
from index.engines.tuning import ProbeTruth
from multifold.types import Metric
from tests.index.engines.recalls import MARGIN, built, recall

ROWS, DIM = 1500, 32


def sphere() -> VectorSet:
    return generated_vectors.sphere_vectors(ROWS, DIM, 200)


def lorentz() -> VectorSet:
    return generated_vectors.lorentz_vectors(ROWS, DIM, 200, curvature=1.0, radius=2.0)


def cloud() -> VectorSet:
    """Signed vectors of very different lengths."""
    rng, scene = np.random.default_rng(5), generated_vectors.sphere_vectors(ROWS, DIM, 200)
    rows = scene.rows * rng.lognormal(0, 0.7, (ROWS, 1)).astype(np.float32)
    return VectorSet(rows, scene.probes * 3, scene.queries * 3)


SCENES: dict[str, tuple[Callable[[], VectorSet], Metric]] = {
    "sphere": (sphere, "ip"),
    "euclidean": (cloud, "l2"),
    "lorentz": (lorentz, "ip"),
    "cloud": (cloud, "ip"),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("IVF{cells},RaBitQfs", "PQ16x4fs")]
TYPES = ("HNSW16,SQ8", "IVF{cells},SQ8", *SLOW)


def lasting(allowed: Ids) -> Ids:
    allowed.flags.writeable = False
    return allowed


@pytest.mark.parametrize("space", SCENES)
@pytest.mark.parametrize("type", TYPES)
def test_every_geometry_reaches_its_target(type: str, space: str) -> None:  # noqa: A002
    make, metric = SCENES[space]
    scene = make()
    engine = built(scene, metric, IndexPlan(type, "cpu", 0.95, seal_at=1, flat_below=0))
    (report,) = engine.reports()
    assert report.probed_with == "queries"
    assert report.recall >= 0.95
    for limit in (10, 40):
        assert recall(engine, scene, metric, limit, None) >= 0.95 - MARGIN
    engine.close()


@pytest.mark.parametrize("type", ["HNSW16,SQ8", "IVF{cells},SQ8", "IVF{cells},Flat"])
def test_a_filter_costs_no_hit(type: str) -> None:  # noqa: A002
    scene = sphere()
    engine = built(scene, "ip", IndexPlan(type, "cpu", 0.95, seal_at=1, flat_below=0))
    centre = scene.queries.mean(axis=0)
    for share in (0.5, 0.2, 0.1, 0.01, 0.001):
        for allowed in (
            np.flatnonzero(np.random.default_rng(1).random(ROWS) < share),
            np.sort(np.argsort(scene.rows @ centre)[: max(1, int(share * ROWS))]),  # those farthest from all
        ):
            assert recall(engine, scene, "ip", 10, allowed) >= 0.95 - MARGIN, share
    engine.close()


def test_threads_that_share_the_cells_of_a_query_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, plan = sphere(), IndexPlan("IVF{cells},SQ8", "cpu", 0.95, seal_at=1, flat_below=0)
    light = built(scene, "ip", plan)
    monkeypatch.setattr(faiss_index, "HEAVY", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    heavy = FaissEngine(DIM, "ip", plan, ask=lambda _: scene.probes)
    heavy.add(np.arange(ROWS), scene.rows)
    heavy.settle()
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
    monkeypatch.setattr(segments, "BEGIN", 0)
    scene, rng = generated_vectors.sphere_vectors(20_000, DIM, 100), np.random.default_rng(2)
    engine = built(scene, metric, IndexPlan("IVF256,SQ8", "cpu", 0.95))
    engine.search(scene.queries, 10, lasting(np.sort(rng.permutation(20_000)[:4000])))
    assert len(engine.parts[0]._selections) == 1
    axis, along = np.argsort(scene.rows[:, 0]), np.argsort(scene.rows @ scene.queries[0])
    for order in (rng.permutation(20_000), axis, along, along[::-1]):
        for count in (4500, 2000):
            assert recall(engine, scene, metric, 10, np.sort(order[:count])) >= 0.95 - MARGIN
    engine.close()


def test_only_a_filter_that_nobody_can_write_to_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are removed later are not found by it."""
    monkeypatch.setattr(segments, "BEGIN", 0)
    scene = generated_vectors.sphere_vectors(20_000, DIM, 8)
    engine = built(scene, "ip", IndexPlan("IVF256,SQ8", "cpu", 0.95))
    allowed = np.arange(0, 20_000, 5)
    for rest in (0, 1):
        assert (engine.search(scene.queries, 10, allowed)[1] % 5 == rest).all()
        allowed += 1
    assert not engine.parts[0]._selections
    allowed = lasting(np.arange(0, 20_000, 5))
    for _ in range(2):
        best = engine.search(scene.queries, 10, allowed)[1][:, 0]
        assert len(engine.parts[0]._selections) == 1
        engine.remove(best)
        assert not np.isin(engine.search(scene.queries, 10, allowed)[1], best).any()
    engine.close()


def test_the_fewer_rows_count_the_further_it_looks() -> None:
    setting = SearchSetting(10, 9, 16, 0.99, 0.0)
    efforts = [setting.within(share).effort for share in (1.0, 0.9, 0.5, 0.1)]
    assert efforts == [9, 11, 27, 171]
    assert setting.within(0.5).candidates > 2 * setting.candidates


def test_deleting_whole_neighbourhoods_costs_no_hit() -> None:
    scene = sphere()
    engine = built(scene, "ip", IndexPlan("HNSW16,SQ8", "cpu", 0.95, seal_at=ROWS, flat_below=0))
    near = np.argsort(-scene.rows @ scene.queries[0])[: ROWS // 5]
    engine.remove(near)
    left = np.setdiff1d(np.arange(ROWS), near)
    exact = ExactEngine(DIM, "ip")
    exact.add(left, scene.rows[left])
    assert (engine.search(scene.queries, 10)[0] >= exact.search(scene.queries, 10)[0][:, -1:]).mean() >= 0.92
    assert not np.isin(engine.search(scene.queries[:1], 10)[1], near).any()
    engine.close()


def test_below_the_target_the_next_type_is_taken_and_said(caplog: pytest.LogCaptureFixture) -> None:
    rows = np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32)
    with caplog.at_level(logging.INFO, "index"):
        engine = built(
            VectorSet(rows, rows[:9], rows[:9]), "l2", IndexPlan("LSH", "cpu", 1.0, 1, 0), asked=False
        )
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
        scene = VectorSet(rows[:ROWS], rows[ROWS:], rows[ROWS:])
        engine = built(scene, "l2", IndexPlan("IVF{cells},SQ8", "cpu", 0.9, seal_at=ROWS, flat_below=0))
        (ann,) = (part.ann for part in engine.parts if part.ann is not None)
        assert ann.strained == strained
        engine.close()


def test_without_queries_rows_are_asked_and_left_out_of_their_own_answer() -> None:
    scene = sphere()
    engine = built(
        scene, "ip", IndexPlan("IVF{cells},Flat", "cpu", 0.9, seal_at=1, flat_below=0), asked=False
    )
    (report,) = engine.reports()
    assert report.probed_with == "rows"
    assert 0.9 <= report.recall < 1  # one cell finds each row itself: that would be 1 at the least effort
    engine.close()


def test_a_report_survives_its_file() -> None:
    scene = sphere()
    engine = built(scene, "ip", IndexPlan("SQ8", "cpu", 0.9, seal_at=1, flat_below=0))
    (report,) = engine.reports()
    again: SegmentReport = report_from_json(report.as_json())
    assert str(again) == str(report)
    assert again.as_json() == report.as_json()
    assert report.bytes_per_row > 4 * DIM + DIM
    engine.close()


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({1: (0.90, 0.88), 2: (0.96, 0.94), 3: (0.97, 0.955), 4: (0.99, 0.98)}, 3),  # the first that is sure
        ({1: (0.90, 0.88), 2: (0.96, 0.94), 3: (0.96, 0.94), 4: (0.96, 0.94)}, 2),  # none is: the first
        (
            {1: (0.90, 0.88), 2: (0.93, 0.92), 3: (0.94, 0.93), 4: (0.92, 0.91)},
            3,
        ),  # none reaches it: the best
    ],
)
def test_a_target_is_reached_by_a_standard_error_more(
    found: dict[int, tuple[float, float]], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each effort takes longer than the one before."""

    def measured(_known: object, _ann: object, one: SearchSetting) -> object:
        recall, least = found[one.effort]
        return replace(one, recall=recall, seconds=float(one.effort)), least

    monkeypatch.setattr(ProbeTruth, "measure", measured)
    monkeypatch.setattr(FaissIndex, "efforts", lambda _: (1, 4))
    monkeypatch.setattr(FaissIndex, "most", 5)
    rows = view_of(np.arange(5), np.zeros((5, 2), np.float32))
    known = ProbeTruth("rows", "ip", rows, rows.vectors[:1], None, 10, np.zeros((1, 1), np.float32))
    ann = FaissIndex("any", L2Reduction(2, None, lifted=False), None)
    assert tuning.tune_setting(ann, known, 0.95).effort == chosen


@pytest.mark.parametrize(("most", "reach"), [(500, 161), (120, 120)])
def test_no_effort_is_tried_far_beyond_a_setting_that_finds_enough(
    most: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few candidates never reach the target; with more, the third effort does. One search gives `most`."""
    tried = list[tuple[int, int]]()

    def measured(_known: object, _ann: object, one: SearchSetting) -> object:
        tried.append((one.candidates, one.effort))
        recall = 1.0 if one.candidates > 100 and one.effort > 2 else 0.9
        return replace(one, recall=recall, seconds=one.effort + one.candidates / 100), recall

    monkeypatch.setattr(ProbeTruth, "measure", measured)
    monkeypatch.setattr(FaissIndex, "efforts", lambda _: (1, 1000))
    monkeypatch.setattr(FaissIndex, "most", most)
    rows = view_of(np.arange(500), np.zeros((500, 2), np.float32))
    known = ProbeTruth("rows", "ip", rows, rows.vectors[:1], None, 10, np.zeros((1, 1), np.float32))
    chosen = tuning.tune_setting(FaissIndex("any", L2Reduction(2, None, lifted=False), None), known, 0.95)
    assert (chosen.candidates, chosen.effort) == (reach, 3)
    assert tried[:3] == [(reach, 1), (reach, 2), (reach, 3)]
    assert max(effort for _, effort in tried) <= 6


def test_the_error_of_a_recall_is_that_of_its_queries() -> None:
    queries = np.zeros((4, 2), np.float32)
    rows = view_of(np.arange(4), queries)
    known = ProbeTruth("rows", "ip", rows, queries, None, 2, np.ones((4, 1), np.float32))
    scores = np.array([[3, 2], [3, 0], [1, 1], [0, 0]], np.float32)
    ids = np.arange(8).reshape(4, 2)
    shares = np.array([1.0, 0.5, 1.0, 0.0])
    assert known.recall((scores, ids)) == pytest.approx((shares.mean(), shares.std() / 2))
