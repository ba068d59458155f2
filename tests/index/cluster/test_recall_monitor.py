"""What one process measures of the graphs in a cluster, all others are told."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.cluster.contracts import MilvusAddress
from index.cluster.milvus_connection import MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.cluster.recall_monitor import RecallMonitor
from index.engines.search_setting import SearchSetting
from index.engines.segments import SegmentReport
from index.store.store import Store
from tests.index.spaces import FEATURE, SPACE

SETTINGS = (SearchSetting(10, 48, 14, 0.99, 1e-3), SearchSetting(100, 300, 104, 0.995, 2e-3))
REPORT = SegmentReport("HNSW in Milvus", 20_000, 0.99, 256, "queries", SETTINGS, 256.0, 0.0)


def test_it_is_measured_once_and_again_when_there_is_much_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, rows = list[int](), iter([20_000, 30_000, 40_000])

    def measure(*_: object) -> SegmentReport:
        measured.append(1)
        return REPORT

    monkeypatch.setattr(MilvusEngine, "measurable", lambda _: True)
    monkeypatch.setattr(MilvusEngine, "measure", measure)
    monkeypatch.setattr(MilvusEngine, "count", lambda _: next(rows))
    link = MilvusConnection(MilvusAddress("http://nowhere"))
    probes = {"shape": np.ones((64, FEATURE), np.float32)}
    with closing(Store(tmp_path / "store.sqlite", SPACE.vector_id)) as store:
        for times in (1, 1, 1, 2):  # the first needs no count
            engine = MilvusEngine(SPACE.dim, "ip", link, "rows")
            monitor = RecallMonitor(SPACE, store, probes, 0.99)  # type: ignore[arg-type]
            monitor.now({("text", "pooled"): engine})
            assert len(measured) == times
            assert engine.measured is not None
            assert engine.measured.as_json() == REPORT.as_json()
        others = {("text", "pooled"): MilvusEngine(SPACE.dim, "ip", link, "others")}
        monitor.now(others)  # type: ignore[arg-type]
        assert len(measured) == 3
