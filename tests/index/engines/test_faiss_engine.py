"""The live engine: merges in the background, versions that hold still, files, and types that do not exist."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index.contracts import IndexEngineError, IndexPlan, IndexPlanError, Memory
from index.engines import faiss_engine, faiss_library
from index.engines.builder import SegmentBuilder
from index.engines.faiss_engine import FaissEngine
from index.engines.segments import Segment
from multifold import machine
from tests.index.disks import no_file_larger_than
from tests.index.engines.built import exact_of, found
from tests.waiting import PATIENCE, until, wait_for

DIM, SEAL = 16, 500
ROWS = np.random.default_rng(0).standard_normal((2000, DIM)).astype(np.float32)
QUERIES = ROWS[:40]


def engine(type: str = "HNSW8,SQ8", seal_at: int = SEAL, home: Path | None = None) -> FaissEngine:  # noqa: A002
    return FaissEngine(DIM, "ip", IndexPlan(type, "cpu", 0.9, seal_at, flat_below=0), home=home)


class HeldBuilds:
    """Builds wait: when one has begun, who builds it, and what lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.builders: list[SegmentBuilder] = []
        build = SegmentBuilder.build

        def wait(builder: SegmentBuilder, *arguments: object) -> Segment:
            self.builders.append(builder)
            self.begun.set()
            wait_for(self.go, "the test to let a build go on")
            return build(builder, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(SegmentBuilder, "build", wait)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldBuilds:
    return HeldBuilds(monkeypatch)


def test_searches_and_changes_go_on_while_a_part_is_built(held: HeldBuilds) -> None:
    live, exact = engine(), exact_of(ROWS[:1000])
    live.add(np.arange(1000), ROWS[:1000])
    wait_for(held.begun, "a build")
    for one in (live, exact):
        one.remove(np.arange(0, 1000, 7))
        one.add(np.arange(0, 1000, 7), ROWS[1000:1143])  # the same ids, other vectors
        one.add(np.arange(5000, 5050), ROWS[1500:1550])
    assert live.reports() == []
    assert live.search(QUERIES, 10)[1].tolist() == exact.search(QUERIES, 10)[1].tolist()
    held.go.set()
    live.settle()
    assert [report.rows for report in live.reports()] == [1000]
    assert live.count() == exact.count() == 1050
    assert found(live, exact, QUERIES, 10) > 0.9
    assert set(live.search(QUERIES, 10)[1].ravel().tolist()) <= {*range(1000), *range(5000, 5050)}
    assert live.search(QUERIES, 10, exact=True)[1].tolist() == exact.search(QUERIES, 10)[1].tolist()
    live.close()


def test_rows_that_wait_have_an_index_and_those_that_come_meanwhile_too(
    held: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 300 * DIM)
    live, exact = engine(), exact_of(ROWS[:1450])

    def add(start: int, end: int) -> None:
        live.add(np.arange(start, end), ROWS[start:end])
        until(lambda: all(part.ann is not None for part in live.parts[:-1]))

    live.search(QUERIES, 10)
    add(0, 600)
    wait_for(held.begun, "a build")
    for start, end in ((600, 1000), (1000, 1400), (1400, 1450)):
        add(start, end)
    for one in (live, exact):
        one.remove(np.arange(0, 1450, 7))
    assert live.reports() == []
    assert [len(part.rows.ids) for part in live.parts] == [600, 800, 50]  # 400 and 400 have one index
    assert found(live, exact, QUERIES, 10) > 0.9
    assert live.search(QUERIES, 10, exact=True)[1].tolist() == exact.search(QUERIES, 10)[1].tolist()
    held.go.set()
    live.settle()
    assert [report.rows for report in live.reports()] == [1242]
    assert live.search(QUERIES, 10, exact=True)[1].tolist() == exact.search(QUERIES, 10)[1].tolist()
    live.close()


def test_rows_get_a_first_index_when_somebody_searches(
    held: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 300 * DIM)
    live, exact = engine(), exact_of(ROWS[:1000])
    live.add(np.arange(600), ROWS[:600])
    wait_for(held.begun, "a build")
    live.add(np.arange(600, 1000), ROWS[600:1000])
    assert [part.ann for part in live.parts] == [None, None]
    assert live.search(QUERIES, 10)[1].tolist() == exact.search(QUERIES, 10)[1].tolist()
    until(lambda: any(part.ann is not None for part in live.parts))
    assert found(live, exact, QUERIES, 10) > 0.9
    held.go.set()
    live.close()


def test_rows_too_few_for_a_first_index_count_among_those_that_are_worth_a_seal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", 300 * DIM)
    live = engine()
    live.search(QUERIES, 10)
    for start, end in ((0, SEAL - 100), (SEAL - 100, SEAL)):
        live.add(np.arange(start, end), ROWS[start:end])
        live.settle()
    assert [report.rows for report in live.reports()] == [SEAL]
    live.close()


def test_close_calls_off_what_is_being_built(held: HeldBuilds) -> None:
    live = engine()
    live.add(np.arange(2000), ROWS)
    wait_for(held.begun, "a build")
    closing = threading.Thread(target=live.close)
    closing.start()
    until(held.builders[0].stopped, what="the engine to close")
    held.go.set()
    closing.join(PATIENCE)
    assert live.count() == 0
    assert live.reports() == []


def test_a_failed_build_leaves_the_rows_exact_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Segment:
        raise MemoryError("no room")

    live = engine()
    with monkeypatch.context() as failing:
        failing.setattr(SegmentBuilder, "build", fail)
        live.add(np.arange(1000), ROWS[:1000])
        with pytest.raises(MemoryError):
            live.settle()
    assert live.count() == 1000
    assert live.search(ROWS[:1] * 9, 1)[1].shape == (1, 1)
    live.add(np.arange(1000, 1001), ROWS[1000:1001])
    live.settle()
    assert [report.rows for report in live.reports()] == [1001]
    live.close()


def test_what_is_replaced_joins_the_largest_part_when_no_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    live, exact = engine("IVF16,SQ8", seal_at=200), exact_of(ROWS)
    live.add(np.arange(2000), ROWS)
    live.settle()
    first = live.parts[0].ann
    assert first is not None
    for start in range(0, 900, 100):  # so few at a time that each of them waits
        for one in (live, exact):
            one.remove(np.arange(start, start + 100))
            one.add(np.arange(3000 + start, 3100 + start), -ROWS[start : start + 100])
        live.settle()
        (part, fresh) = live.parts
        assert part.ann is not None
        assert (len(part.rows.ids), len(fresh.rows)) == (2000, 0)
        assert (part.ann.cells, part.ann.added) == (first.cells, start + 100)
    assert found(live, exact, QUERIES, 10) > 0.9
    for one in (live, exact):
        one.add(np.arange(5000, 5600), ROWS[:600])
    live.settle()
    part, _ = live.parts
    assert part.ann is not None
    assert (len(part.rows), part.ann.added) == (2600, 0)  # more than half came later: they are learned anew
    monkeypatch.setattr(faiss_engine, "UNCHANGED", 0.0)
    live.add(np.arange(6000, 6100), ROWS[:100])
    assert len(live.parts) == 2

    def merged_by_searches() -> bool:
        live.search(QUERIES[:1], 10)  # some of which are checked, and a check begins a merge
        return len(live.parts[0].rows) == 2700

    until(merged_by_searches)
    live.close()


def test_parts_are_merged_by_size_and_rot() -> None:
    live = engine("Flat", seal_at=100)
    # 300 loose rows take 1000 along; of 1300 rows, 400 that are dead are too many
    for start, end, parts in ((0, 1000, [1000]), (1000, 1100, [1000, 100]), (1100, 1300, [1300])):
        live.add(np.arange(start, end), ROWS[start:end])
        live.settle()
        assert [report.rows for report in live.reports()] == parts
    for dead, parts in ((400, [900]), (1300, [])):
        live.remove(np.arange(dead))
        live.settle()
        assert [report.rows for report in live.reports()] == parts
    assert live.count() == 0
    live.close()


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
        answers = [one.search(QUERIES, 5, allowed) for one in (again, live)]
        assert [part.tolist() for part in answers[0]] == [part.tolist() for part in answers[1]]
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
    for place in rng.integers(0, len(whole), 40).tolist():
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


@pytest.mark.parametrize("memory", ["resident", "codes"])
def test_a_disk_that_is_full_while_rows_are_sealed_loses_nothing_and_heals(
    tmp_path: Path, memory: Memory
) -> None:
    plan = IndexPlan("IVF{cells},SQ8", "cpu", 0.9, seal_at=500, flat_below=0, memory=memory)
    live = FaissEngine(DIM, "ip", plan, home=tmp_path)
    exact = exact_of(ROWS)
    with no_file_larger_than(1 << 12):
        live.add(np.arange(len(ROWS) - 1), ROWS[:-1])
        with pytest.raises(OSError, match="large"):
            live.settle()
        assert list(tmp_path.iterdir()) == []
        assert live.reports() == []
        assert live.search(ROWS[:9], 5)[1].tolist() == exact.search(ROWS[:9], 5)[1].tolist()
    live.add(np.array([len(ROWS) - 1]), ROWS[-1:])
    live.settle()
    assert sum(report.rows for report in live.reports()) >= len(ROWS) - 500
    assert live.search(ROWS[:9], 5, exact=True)[1].tolist() == exact.search(ROWS[:9], 5)[1].tolist()
    live.close()


@pytest.mark.skipif(faiss_library.gpu_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(IndexPlanError, match="finds no GPU"):
        FaissEngine(DIM, "ip", IndexPlan(device="gpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("type", ["auto", "CAGRA", "IVF{cells},Flat", "Flat"])
def test_the_gpu_agrees_with_the_cpu(tmp_path: Path, type: str) -> None:  # noqa: A002
    plan = IndexPlan(type, "gpu", 0.9, seal_at=500, flat_below=0)
    live, again, exact = FaissEngine(DIM, "ip", plan), FaissEngine(DIM, "ip", plan), exact_of(ROWS)
    live.add(np.arange(2000), ROWS)
    live.settle()
    for changed in (live, exact):
        changed.remove(np.arange(100))
    live.save(tmp_path / "rows")
    again.load(tmp_path / "rows")
    for one in (live, again):
        for limit in (10, 1900):
            assert found(one, exact, ROWS[:50], limit) > 0.9
        one.close()


def test_many_queries_and_many_threads_get_their_own_answers() -> None:
    live = engine("Flat")
    live.add(np.arange(500), ROWS[:500])
    live.settle()
    queries = ROWS[:300]
    wanted = [live.search(query[None], 3)[1][0].tolist() for query in queries]
    assert live.search(queries, 3)[1].tolist() == wanted
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda query: live.search(query[None], 3)[1][0].tolist(), queries)
    assert list(answers) == wanted
    live.close()


def test_searches_beside_each_other_share_the_cores() -> None:
    cores = faiss_engine.SharedCores(4)
    with cores.searching() as first, cores.searching() as second, cores.searching() as third:
        assert (first, second, third) == (4, 2, 1)
    with cores.searching() as again:
        assert again == 4


def test_work_beside_searches_yields_while_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, told = faiss_engine.SharedCores(2), list[int]()
    monkeypatch.setattr(faiss_engine, "set_thread_priority", told.append)
    cores.let_searches_go_first()
    with cores.searching():
        cores.let_searches_go_first()
    cores.let_searches_go_first()  # a moment later
    monkeypatch.setattr(faiss_engine, "QUIET", 0.0)
    cores.let_searches_go_first()
    assert told == [0, machine.LOW_PRIORITY, machine.LOW_PRIORITY, 0]


def test_a_report_says_what_each_step_took() -> None:
    live = engine("IVF{cells},SQ8")
    live.add(np.arange(1000), ROWS[:1000])
    live.settle()
    (report,) = live.reports()
    assert [*report.steps] == ["merging", "probing", "learning and filling", "tuning"]
    assert all(took >= 0 for took in report.steps.values())
    assert "s of tuning" in str(report)
    live.close()
