"""Engines as the plan asks for them: with their vectors in memory, or in files."""

from pathlib import Path

import numpy as np
import pytest

from index import engine_factory
from index.contracts import IndexPlan, Memory
from index.engine_factory import EngineFactory
from index.engines.faiss_engine import FaissEngine
from tests.index.spaces import Sphere

DIM, COUNT = 16, 600
ROWS = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
NEEDED = 4 * DIM * COUNT  # bytes


@pytest.mark.parametrize(
    ("wanted", "setting", "memory", "apart"),
    [
        ("auto", "codes", 1 << 40, True),
        ("resident", "codes", 1 << 40, False),  # the plan says more than the setting
        ("codes", "resident", 1 << 40, True),
        ("auto", "auto", 1 << 40, False),
        ("auto", "auto", 2 * NEEDED, True),  # where vectors would fill the memory
    ],
)
def test_vectors_are_in_memory_or_in_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: Memory,
    setting: Memory,
    memory: int,
    apart: bool,
) -> None:
    monkeypatch.setattr(engine_factory, "memory_limit", lambda: memory)
    plan = IndexPlan("SQ8", "cpu", 0.9, COUNT, 100, wanted)
    live = EngineFactory(Sphere(DIM), plan, "own", tmp_path, memory=setting)(("image", "pooled"))
    assert isinstance(live, FaissEngine)
    live.add(np.arange(COUNT), ROWS)
    live.settle()
    assert [report.file_bytes_per_row > 0 for report in live.reports()] == [apart]
    live.close()
