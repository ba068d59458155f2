"""What segments are measured with, and when they are measured anew."""

from dataclasses import replace

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors, unit_vectors
from index.contracts import IndexEngine, IndexPlan
from index.engines.builder import MIN_QUERIES, SegmentBuilder, real_queries
from index.engines.exact_engine import ExactEngine, view_of
from index.engines.faiss_index import IndexStart
from index.engines.search_setting import SearchSetting
from index.engines.segments import SegmentReport, StepTimes
from multifold.types import Features, Side, Vectors
from tests.index.spaces import FEATURE, SPACE, Lorentz


def test_queries_come_from_probes_then_from_other_sides() -> None:
    probes: dict[Side, Features] = {"text": np.ones((40, FEATURE), np.float32)}
    seen = ExactEngine(FEATURE, "ip")
    seen.add(np.arange(50), np.eye(FEATURE, dtype=np.float32)[np.zeros(50, int)])
    stored: dict[tuple[Side, str], IndexEngine] = {("shape", "observation"): seen}
    asked = real_queries(SPACE, "shape", 32, probes, stored)  # type: ignore[arg-type]
    assert asked == pytest.approx(np.full((32, FEATURE), 0.5))
    assert real_queries(SPACE, "text", 32, probes, {}) is None
    told = real_queries(SPACE, "text", 40, probes, stored)  # type: ignore[arg-type]
    assert told is not None
    assert told.tolist() == np.eye(FEATURE)[[0] * 40].tolist()
    assert real_queries(SPACE, "text", MIN_QUERIES - 1, probes, stored) is None  # type: ignore[arg-type]
    signed = real_queries(Lorentz(FEATURE + 1), "shape", 32, probes, {})
    assert signed is not None
    assert (signed[:, -1] < 0).all()


ROWS, DIM = 9000, 128
SCENE = sphere_vectors(10_000, DIM, 64)
BUILDER = SegmentBuilder(
    "ip",
    IndexPlan("IVF256,SQ8", "cpu", 0.95, flat_below=0),
    ask=lambda count: SCENE.probes[:count],
    signs=None,
    threads=1,
    stopped=lambda: False,
)
FIRST = BUILDER.build(view_of(np.arange(ROWS), SCENE.rows[:ROWS]), None, StepTimes())


def joined(more: Vectors, settings: tuple[SearchSetting, ...] | None = None) -> SegmentReport:
    """What is reported when rows join the first part."""
    assert FIRST.ann is not None
    known = replace(FIRST.ann, settings=FIRST.ann.settings if settings is None else settings)
    rows = view_of(np.arange(ROWS + len(more)), np.concatenate([SCENE.rows[:ROWS], more]))
    return BUILDER.build(rows, IndexStart(known, np.arange(ROWS)), StepTimes()).seal


def test_a_part_keeps_its_settings_when_a_few_rows_of_its_kind_join_it() -> None:
    report = joined(SCENE.rows[ROWS:])
    assert report.settings == FIRST.seal.settings
    assert "tuning" not in report.steps


@pytest.mark.parametrize("count", [1000, ROWS])
def test_it_is_tuned_again_for_rows_of_another_kind_and_for_many(count: int) -> None:
    others = unit_vectors(np.random.default_rng(1).normal(size=(count, DIM)))
    report = joined(others)
    assert report.settings != FIRST.seal.settings
    assert report.recall >= 0.95


def test_it_is_tuned_again_where_its_settings_find_too_little() -> None:
    least = tuple(
        replace(one, effort=1, ordinary=None, strange=None, far=np.inf) for one in FIRST.seal.settings
    )
    report = joined(SCENE.rows[ROWS:], least)
    assert report.settings != least
    assert report.recall >= 0.95
