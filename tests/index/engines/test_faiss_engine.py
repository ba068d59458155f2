"""The live engine: merges in the background, versions that hold still, files, and types that do not exist."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index.contracts import IndexEngineError, IndexPlan, IndexPlanError
from index.engines import faiss_engine, faiss_library
from index.engines.builder import SegmentBuilder
from index.engines.exact_engine import ExactEngine, view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.segments import Segment, segments_to_merge
from multifold import machine
from tests.waiting import PATIENCE, until, wait_for

DIM = 16
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((2000, DIM)).astype(np.float32)


def engine(type: str = "HNSW8,SQ8", seal_at: int = 500, home: Path | None = None) -> FaissEngine:  # noqa: A002
    return FaissEngine(DIM, "ip", IndexPlan(type, "cpu", 0.9, seal_at, flat_below=0), home=home)


def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Builds wait: an event that one has begun, and one that lets it go on."""
    begun, go, build = threading.Event(), threading.Event(), SegmentBuilder.build

    def wait(self: SegmentBuilder, *arguments: object) -> Segment:
        begun.set()
        wait_for(go, "the test to let a build go on")
        return build(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentBuilder, "build", wait)
    return begun, go


def test_searches_and_changes_go_on_while_a_part_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = held(monkeypatch)
    live, exact = engine(), ExactEngine(DIM, "ip")
    for one in (live, exact):
        one.add(np.arange(1000), ROWS[:1000])
    wait_for(begun, "a build")
    for one in (live, exact):
        one.remove(np.arange(0, 1000, 7))
        one.add(np.arange(0, 1000, 7), ROWS[1000:1143])  # the same ids, other vectors
        one.add(np.arange(5000, 5050), ROWS[1500:1550])
    assert live.reports() == []
    queries = ROWS[:40]
    assert live.search(queries, 10)[1].tolist() == exact.search(queries, 10)[1].tolist()
    go.set()
    live.settle()
    (report,) = live.reports()
    assert report.rows == 1000
    assert live.count() == exact.count() == 1050
    assert np.mean(live.search(queries, 10)[0] >= exact.search(queries, 10)[0][:, -1:]) > 0.9
    assert set(live.search(queries, 10)[1].ravel().tolist()) <= {*range(1000), *range(5000, 5050)}
    everything = live.range(queries[0], -1e9)
    assert everything[1].tolist() == exact.range(queries[0], -1e9)[1].tolist()
    live.close()


def test_rows_that_wait_have_an_index_and_those_that_come_meanwhile_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 300 * DIM)
    begun, go = held(monkeypatch)
    live, exact = engine(), ExactEngine(DIM, "ip")

    def add(ids: range) -> None:
        for one in (live, exact):
            one.add(np.array(ids), ROWS[ids.start : ids.stop])
        until(lambda: all(part.ann is not None for part in live.parts[:-1]))

    add(range(600))
    wait_for(begun, "a build")
    add(range(600, 1000))
    add(range(1000, 1400))
    add(range(1400, 1450))
    for one in (live, exact):
        one.remove(np.arange(0, 1450, 7))
    assert live.reports() == []
    assert [len(part.rows.ids) for part in live.parts] == [600, 800, 50]  # 400 and 400 have one index
    assert np.mean(live.search(ROWS[:40], 10)[0] >= exact.search(ROWS[:40], 10)[0][:, -1:]) > 0.9
    assert live.search(ROWS[:40], 10, exact=True)[1].tolist() == exact.search(ROWS[:40], 10)[1].tolist()
    go.set()
    live.settle()
    assert [report.rows for report in live.reports()] == [1242]
    assert live.range(ROWS[0], -1e9)[1].tolist() == exact.range(ROWS[0], -1e9)[1].tolist()
    live.close()


def test_rows_too_few_for_a_first_index_count_among_those_that_are_worth_a_seal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 300 * DIM)
    live = engine()
    worth = live._plan.seal_at
    for start, end in ((0, worth - 100), (worth - 100, worth)):
        live.add(np.arange(start, end), ROWS[start:end])
        live.settle()
    assert [report.rows for report in live.reports()] == [worth]
    live.close()


def test_close_calls_off_what_is_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = held(monkeypatch)
    live = engine()
    live.add(np.arange(2000), ROWS)
    wait_for(begun, "a build")
    closing = threading.Thread(target=live.close)
    closing.start()
    wait_for(live._closing, "the engine to close")
    go.set()
    closing.join(PATIENCE)
    assert live.count() == 0
    assert live.reports() == []


def test_a_failed_build_leaves_the_rows_exact_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    live, build = engine(), SegmentBuilder.build

    def fail(self: SegmentBuilder, *arguments: object) -> Segment:
        monkeypatch.setattr(SegmentBuilder, "build", build)
        raise MemoryError("no room")

    monkeypatch.setattr(SegmentBuilder, "build", fail)
    live.add(np.arange(1000), ROWS[:1000])
    with pytest.raises(MemoryError):
        live.settle()
    assert live.count() == 1000
    assert live.search(ROWS[:1] * 9, 1)[1].shape == (1, 1)
    live.add(np.arange(1000, 1001), ROWS[1000:1001])
    live.settle()
    assert [report.rows for report in live.reports()] == [1001]
    live.close()


def test_parts_are_merged_by_size_and_rot() -> None:
    live = engine("Flat", seal_at=100)
    live.add(np.arange(1000), ROWS[:1000])
    live.settle()
    live.add(np.arange(1000, 1100), ROWS[1000:1100])
    live.settle()
    assert [report.rows for report in live.reports()] == [1000, 100]
    live.add(np.arange(1100, 1300), ROWS[1100:1300])
    live.settle()
    assert [report.rows for report in live.reports()] == [1300]  # 300 loose rows take 1000 along
    live.remove(np.arange(400))
    live.settle()
    assert [report.rows for report in live.reports()] == [900]
    live.remove(np.arange(1300))
    live.settle()
    assert live.reports() == []
    assert live.count() == 0
    live.close()


def test_nothing_is_due_without_rows() -> None:
    empty = Segment(view_of(np.empty(0, np.int64), np.empty((0, DIM), np.float32)))
    assert segments_to_merge([empty], seal_at=1) == []


@pytest.mark.parametrize("type", ["HNSW8,SQ8", "IVF{cells},PQ8x4fs", "PCA8,IVF{cells},SQ8", "Flat"])
def test_sealed_rows_come_back_from_their_files(tmp_path: Path, type: str) -> None:  # noqa: A002
    live, again = engine(type, home=tmp_path / "home"), engine(type)
    live.add(np.arange(1500), ROWS[:1500])
    live.settle()
    live.remove(np.arange(0, 100, 3))
    live.add(np.arange(1500, 1600), ROWS[1500:1600])
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        live.save(tmp_path / folder / "rows")
    again.load(tmp_path / "second" / "rows")
    assert again.count() == live.count()
    assert [str(report) for report in again.reports()] == [str(report) for report in live.reports()]
    for allowed in (None, np.arange(50, 900)):
        for left, right in zip(
            again.search(ROWS[:50], 5, allowed), live.search(ROWS[:50], 5, allowed), strict=True
        ):
            assert left.tolist() == right.tolist()
    (part,) = (tmp_path / "home").iterdir()
    assert part.stat().st_nlink == 3  # written once, linked by each save
    live.close()
    again.close()


def test_a_damaged_part_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    live = engine("SQ8")
    live.add(np.arange(600), ROWS[:600])
    live.settle()
    live.save(tmp_path / "rows")
    (part,) = tmp_path.glob("rows.*")
    whole, rng = part.read_bytes(), np.random.default_rng(1)
    for place in rng.integers(0, len(whole), 60).tolist():
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(IndexEngineError, match="damaged"):
            live.load(tmp_path / "rows")
    part.unlink()
    with pytest.raises(IndexEngineError, match="cannot be read"):
        live.load(tmp_path / "rows")
    assert live.count() == 600
    live.close()


def test_types_that_nobody_can_build_are_refused_at_once() -> None:
    for type_, reason in (
        ("nonsense", "cannot make an index 'nonsense'"),
        ("IVF16,Flat,RFlat", "leave it out"),
        ("IDMap,Flat", "leave it out"),
        ("CAGRA", "lives on a GPU"),
    ):
        with pytest.raises(IndexPlanError, match=reason):
            engine(type_)
    with pytest.raises(IndexPlanError, match="recall"):
        IndexPlan(recall=1.5)


@pytest.mark.skipif(faiss_library.gpu_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(IndexPlanError, match="finds no GPU"):
        FaissEngine(DIM, "ip", IndexPlan(device="gpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("type", ["auto", "CAGRA", "IVF{cells},Flat", "Flat"])
def test_the_gpu_agrees_with_the_cpu(tmp_path: Path, type: str) -> None:  # noqa: A002
    plan = IndexPlan(type, "gpu", 0.9, seal_at=500, flat_below=0)
    live, again, exact = FaissEngine(DIM, "ip", plan), FaissEngine(DIM, "ip", plan), ExactEngine(DIM, "ip")
    for one in (live, exact):
        one.add(np.arange(2000), ROWS)
    live.settle()
    live.remove(np.arange(100))
    exact.remove(np.arange(100))
    live.save(tmp_path / "rows")
    again.load(tmp_path / "rows")
    for one in (live, again):
        for limit in (10, 1900):
            known = exact.search(ROWS[:50], limit)[0][:, -1:]
            assert np.mean(one.search(ROWS[:50], limit)[0] >= known) > 0.9
        one.close()


def test_many_queries_and_many_threads_get_their_own_answers() -> None:
    live = engine("Flat")
    live.add(np.arange(500), ROWS[:500])
    live.settle()
    queries = np.tile(ROWS[:500], (2, 1))
    wanted = [live.search(query[None], 3)[1][0].tolist() for query in ROWS[:500]]
    assert live.search(queries, 3)[1].tolist() == wanted * 2
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda query: live.search(query[None], 3)[1][0].tolist(), queries)
    assert list(answers) == wanted * 2
    live.close()


def test_no_more_threads_search_than_openmp_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.openmp_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert machine.openmp_threads() == 4


def test_searches_beside_each_other_share_the_cores() -> None:
    cores = faiss_engine.SharedCores(4)
    with cores.searching() as first, cores.searching() as second, cores.searching() as third:
        assert (first, second, third) == (4, 2, 1)
    with cores.searching() as again:
        assert again == 4
