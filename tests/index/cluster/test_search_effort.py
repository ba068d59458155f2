"""How far a graph in Milvus looks, chosen by measured recall."""

from contextlib import closing
from pathlib import Path

import pytest

from index.cluster.contracts import MilvusAddress
from index.cluster.milvus_connection import MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.cluster.recall_monitor import RecallMonitor
from index.cluster.search_effort import EFFORTS, LEAST, MOST, effort_for, least_effort
from index.engines.faiss_index import SearchSetting
from index.engines.segments import SegmentReport
from index.store.store import Store
from tests.index.spaces import SPACE

MEASURED = (SearchSetting(10, 48, 14, 0.99, 1e-3), SearchSetting(100, 300, 104, 0.995, 2e-3))


@pytest.mark.parametrize(
    ("reach", "effort"), [(1, 48), (14, 48), (15, 300), (104, 300), (208, 600), (105, 303)]
)
def test_so_far_as_was_measured_and_beyond_in_proportion(reach: int, effort: int) -> None:
    assert effort_for(reach, MEASURED) == effort >= reach


def test_cells_do_not_grow_with_the_candidates_before_they_are_measured() -> None:
    cells = EFFORTS["IVF_SQ8"]
    assert effort_for(10, (), cells) == effort_for(5000, (), cells) == cells.unmeasured
    assert effort_for(10_000, MEASURED, cells) == cells.most
    found = least_effort(10, 24, 0.9, lambda effort: (effort / 1000, 0.0), cells)
    assert cells.least < found.effort <= cells.most
    assert found.recall >= 0.9
    assert least_effort(10, 24, 0.99, lambda _: (0.5, 0.0), cells).effort <= cells.most


def test_the_least_that_reaches_the_target() -> None:
    asked: list[int] = []

    def measure(effort: int) -> tuple[float, float]:
        asked.append(effort)
        return min(1.0, effort / 1000), effort * 1e-5

    found = least_effort(10, 14, 0.9, measure)
    assert found == SearchSetting(10, asked[-1], 14, min(1.0, asked[-1] / 1000), asked[-1] * 1e-5)
    assert asked == sorted(asked)
    assert asked[-2] < 900 <= asked[-1]
    assert asked[0] == LEAST


def test_where_none_reaches_it_the_best_is_taken() -> None:
    found = least_effort(100, 104, 0.99, lambda effort: (0.5 + effort / 10 / MOST, 0.0))
    assert (found.effort, found.recall) == (MOST, 0.6)


def test_it_is_noted_for_others(tmp_path: Path) -> None:
    report = SegmentReport("HNSW in Milvus", 20_000, 0.99, 256, "queries", MEASURED, 256.0, 0.0)
    with closing(Store(tmp_path / "store.sqlite", SPACE.vector_id)) as store:
        engine = MilvusEngine(SPACE.dim, "ip", MilvusConnection(MilvusAddress("http://nowhere")), "rows")
        one, other = (RecallMonitor(SPACE, store, None, 0.99) for _ in range(2))
        one._note({"rows": report, "gone": report}, {("text", "pooled"): engine})
        other._tell({("text", "pooled"): engine})
        assert engine.measured is not None
        assert engine.measured.as_json() == report.as_json()
        assert set(other._noted()) == {"rows"}
