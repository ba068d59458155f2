"""Codes in memory, vectors in files: the same answers, checked when they are read, and no file left over."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benches.service.running_service import resident_bytes
from index.collection import Collection
from index.contracts import NOBODY, IndexEngineError, IndexPlan, RowsLostError
from index.engines import faiss_engine, merging
from index.engines.builder import SegmentBuilder
from index.engines.cell_tuning import CellTuner
from index.engines.faiss_engine import FaissEngine
from index.engines.row_file import (
    BYTES,
    FLOATS,
    ReadCount,
    VectorFile,
    open_vectors,
    read_rows,
    release_pages,
    row_sums,
    write_rows,
    write_vectors,
)
from index.engines.saved_engines import SEALED, remove_unlinked_segments
from multifold.types import Item
from tests.index.engines.built import exact_of, found, measure_ordinary_queries
from tests.index.spaces import Sphere
from tests.index.things import query, view

DIM, COUNT = 32, 3000
RNG = np.random.default_rng(5)
CENTRES = RNG.standard_normal((40, DIM))
ROWS = (CENTRES[RNG.integers(40, size=COUNT)] + 0.4 * RNG.standard_normal((COUNT, DIM))).astype(np.float32)
QUERIES = (CENTRES + 0.5 * RNG.standard_normal((40, DIM))).astype(np.float32)
EXACT = exact_of(ROWS, "l2")


def engine(home: Path | None, seal_at: int = COUNT) -> FaissEngine:
    return FaissEngine(DIM, "l2", IndexPlan("auto", "cpu", 0.95, seal_at, 100, "codes"), home=home)


def filled(home: Path | None) -> FaissEngine:
    live = engine(home)
    live.add(np.arange(COUNT), ROWS)
    live.settle()
    return live


def saved(folder: Path) -> Path:
    """The folder of an engine that was saved: its file, and those of its part."""
    live = filled(folder / SEALED)
    (folder / "save").mkdir()
    live.save(folder / "save" / "rows")
    live.close()
    return folder / "save"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("once"))


@pytest.fixture
def save(once: Path, tmp_path: Path) -> Path:
    """A copy of the saved engine."""
    return shutil.copytree(once, tmp_path / "copy" / once.name)


def opened(save: Path) -> FaissEngine:
    live = engine(save.parent / "home")
    live.load(save / "rows")
    return live


def file_of(live: FaissEngine) -> VectorFile:
    file = live.parts[0].rows.file
    assert file is not None
    return file


def nodes(folder: Path) -> set[int]:
    """The files of vectors there, whatever they are called."""
    return {path.stat().st_ino for path in folder.glob("*.vectors")}


@pytest.mark.parametrize("kept", [True, False])
def test_vectors_in_files_answer_as_those_in_memory_do(save: Path, kept: bool) -> None:
    live = opened(save) if kept else filled(None)
    (report,) = live.reports()
    assert report.type == "IVF64,SQ4"
    assert report.file_bytes_per_row == 4 * DIM
    counted = DIM / 2 + 8 + 17 + 64 * 4 * DIM / COUNT  # codes, ids, what is not in the index, cells
    assert counted - 1 < report.bytes_per_row < counted + 1
    assert "in a file" in str(report)
    assert found(live, EXACT, QUERIES, 10) >= 0.95
    chosen = RNG.permutation(COUNT)[:600]
    for allowed in (None, chosen, chosen[:7]):
        wanted, given = (one.search(QUERIES, 25, allowed, exact=True) for one in (EXACT, live))
        assert [part.tolist() for part in wanted] == [part.tolist() for part in given]
    assert live.read_count.rows > 0
    live.close()


def test_rows_that_are_filled_in_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "QUIET_TIER", 0)  # those that stay in memory do not join them
    live = engine(tmp_path / "home", seal_at=1 << 20)
    with monkeypatch.context() as unsealed:
        unsealed.setattr(faiss_engine, "segments_to_merge", lambda *_, **__: [])
        with live.filling():
            for start in range(0, COUNT, 500):
                live.add(np.arange(start, start + 500), ROWS[start : start + 500])
            with pytest.raises(IndexEngineError, match="rising ids"):
                live.add(np.array([COUNT + 5, COUNT + 1]), ROWS[:2])
    filled_in, fresh = (part.rows for part in live.parts)
    assert (len(fresh.ids), len(filled_in.ids)) == (500, COUNT - 500)  # so few rows stay in memory
    assert live.search(QUERIES, 25)[1].tolist() == EXACT.search(QUERIES, 25)[1].tolist()
    node = nodes(tmp_path / "home")
    (tmp_path / "save").mkdir()
    live.save(tmp_path / "save" / "rows")
    live.close()
    again = engine(tmp_path / "home", seal_at=1 << 20)
    again.load(tmp_path / "save" / "rows")
    again.settle()
    (report,) = again.reports()
    assert (report.type, report.rows, report.target) == ("IVF64,SQ4", COUNT - 500, 0.95)
    assert nodes(tmp_path / "home") == node
    assert found(again, EXACT, QUERIES, 10) >= 0.95
    again.close()


@pytest.mark.parametrize(("filling", "left"), [(True, [".rows", ".vectors"]), (False, [])])
def test_a_build_that_fails_leaves_no_file_but_those_that_were_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filling: bool, left: list[str]
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    live = engine(tmp_path)
    monkeypatch.setattr(SegmentBuilder, "build", fail)
    if filling:
        with live.filling():
            live.add(np.arange(100), ROWS[:100])
            live.add(np.arange(100, COUNT), ROWS[100:])
    else:
        live.add(np.arange(COUNT), ROWS)
    with pytest.raises(MemoryError):
        live.settle()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == left
    assert live.search(QUERIES, 25)[1].tolist() == EXACT.search(QUERIES, 25)[1].tolist()
    live.close()


def test_a_filter_reads_only_rows_that_it_allows(save: Path) -> None:
    live = opened(save)
    allowed = np.sort(RNG.permutation(COUNT)[: COUNT // 2])
    live.search(QUERIES, 10, allowed)
    file = file_of(live)
    assert file.seen.any()
    file.seen[:] = False
    live.search(QUERIES, 10, allowed)
    assert file.seen.any()
    assert not file.seen[np.setdiff1d(np.arange(COUNT), allowed)].any()
    live.close()


@pytest.mark.parametrize("dead", [0, 400])
def test_a_filter_of_few_rows_scores_their_codes_first(save: Path, dead: int) -> None:
    live, exact = opened(save), exact_of(ROWS, "l2")
    for one in (live, exact):
        one.remove(np.arange(dead))
    allowed = np.sort(RNG.permutation(COUNT)[: COUNT // 8])
    file = file_of(live)
    file.seen[:] = False
    live.search(QUERIES[:1], 3, allowed)
    seen = np.flatnonzero(file.seen)
    assert 3 <= len(seen) < len(allowed) / 2
    assert np.isin(seen, allowed[allowed >= dead]).all()
    assert found(live, exact, QUERIES, 3, allowed) >= 0.95
    assert np.isin(live.search(QUERIES, 3, allowed)[1], allowed[allowed >= dead]).all()
    live.close()


def test_rows_that_change_are_merged_into_new_files(tmp_path: Path) -> None:
    live, exact = filled(tmp_path), exact_of(ROWS, "l2")
    (before,) = tmp_path.glob("*.vectors")
    for one in (live, exact):
        one.remove(np.arange(0, COUNT, 3))
        one.add(np.arange(0, COUNT, 6), ROWS[::-1][: len(range(0, COUNT, 6))])
    live.settle()
    assert sum(report.rows for report in live.reports()) == len(live.parts[0].rows)
    assert live.search(QUERIES, 25, exact=True)[1].tolist() == exact.search(QUERIES, 25)[1].tolist()
    assert found(live, exact, QUERIES, 10) >= 0.95
    assert {path.suffix for path in tmp_path.iterdir()} == {".rows", ".vectors"}
    assert len([*tmp_path.iterdir()]) == 2 * len(live.reports())
    assert not before.exists()
    live.close()


def test_a_part_that_is_tuned_again_keeps_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:  # earlier versions measured ordinary queries alone
        before.setattr(CellTuner, "tune", measure_ordinary_queries)
        save = saved(tmp_path)
    live = engine(tmp_path / SEALED)
    live.load(save / "rows")
    live.settle()
    assert live.seals == 1
    assert nodes(tmp_path / SEALED) == nodes(save)
    assert found(live, EXACT, QUERIES, 10) >= 0.95
    live.close()


def test_a_saved_engine_reads_few_vectors_when_it_is_opened(save: Path) -> None:
    live = opened(save)
    assert (live.read_count.reads, live.read_count.waiting) == (0, 1.0)
    assert found(live, EXACT, QUERIES, 10) >= 0.95
    assert 0 < np.count_nonzero(file_of(live).seen) < COUNT
    live.remove(np.arange(5))
    live.save(save / "later")
    assert sorted(one.suffix for one in save.iterdir()) == ["", "", ".rows", ".vectors"]
    live.close()


def test_a_flipped_bit_of_a_vector_is_told_when_it_is_read(
    save: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (vectors,) = save.glob("*.vectors")
    whole = bytearray(vectors.read_bytes())
    whole[4 * DIM * 77 + 13] ^= 1
    vectors.write_bytes(bytes(whole))
    live = opened(save)
    for queries, exact in ((ROWS[77:78], False), (QUERIES[:1], True)):
        with pytest.raises(RowsLostError, match="damaged"):
            live.search(queries, 10, exact=exact)
        assert f"{vectors} is damaged" in caplog.text
        caplog.clear()
    live.close()


def test_a_flipped_bit_that_a_merge_reads_is_told_by_the_next_search(save: Path) -> None:
    (vectors,) = save.glob("*.vectors")
    whole = bytearray(vectors.read_bytes())
    whole[4 * DIM * 77 + 13] ^= 1
    vectors.write_bytes(bytes(whole))
    live = opened(save)
    live.add(np.arange(COUNT, 2 * COUNT), ROWS)
    with pytest.raises(RowsLostError, match="damaged"):
        live.settle()
    with pytest.raises(RowsLostError, match="damaged"):
        live.search(ROWS[:1], 1, np.array([COUNT]))
    live.close()


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: b"", lambda whole: whole + whole])
def test_a_file_of_vectors_of_another_size_or_none_is_refused(
    save: Path, damage: Callable[[bytes], bytes]
) -> None:
    (vectors,) = save.glob("*.vectors")
    vectors.write_bytes(damage(vectors.read_bytes()))
    live = engine(None)
    with pytest.raises(IndexEngineError, match="vectors of 32"):
        live.load(save / "rows")
    vectors.unlink()
    with pytest.raises(OSError, match="No such file"):
        live.load(save / "rows")
    assert live.count() == 0
    live.close()


def test_vectors_of_another_part_are_told_though_no_query_reads_them(save: Path) -> None:
    (vectors,) = save.glob("*.vectors")
    vectors.write_bytes(np.roll(ROWS, 1, axis=0).astype("<f4").tobytes())
    live = engine(None)
    with pytest.raises(IndexEngineError, match="is damaged, or another file"):
        live.load(save / "rows")
    live.close()


def test_files_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    live = engine(tmp_path / SEALED, seal_at=500)
    live.add(np.arange(600), ROWS[:600])
    live.settle()
    (tmp_path / "save").mkdir()
    live.save(tmp_path / "save" / "rows")
    live.close()
    linked = {path.name for path in (tmp_path / SEALED).iterdir()}
    assert len(linked) == 2
    (tmp_path / SEALED / "0123.vectors").write_bytes(b"left")
    remove_unlinked_segments(tmp_path)
    assert {path.name for path in (tmp_path / SEALED).iterdir()} == linked


def test_rows_so_few_that_each_is_read_stay_in_memory(tmp_path: Path) -> None:
    live = FaissEngine(DIM, "l2", IndexPlan("auto", "cpu", 0.95, 500, 1000, "codes"), home=tmp_path)
    for start, end, wanted in ((0, 600, [0.0]), (600, 1500, [4.0 * DIM])):
        live.add(np.arange(start, end), ROWS[start:end])
        live.settle()
        assert [report.file_bytes_per_row for report in live.reports()] == wanted
    live.close()


def test_what_was_read_once_takes_no_memory_and_can_be_read_again(tmp_path: Path) -> None:
    path, index = tmp_path / "x.rows", np.random.default_rng(2).bytes(1 << 25)
    vectors = np.ones((10, DIM), np.float32)
    lengths, ids = np.ones(10, np.float32), np.arange(10)
    write_rows(path, NOBODY, "ip", ids, vectors, lengths, np.frombuffer(index, BYTES))
    data = read_rows(path, NOBODY, "ip", DIM, FLOATS, BYTES)[1][3]
    before = resident_bytes(os.getpid())
    release_pages(data)
    assert before - resident_bytes(os.getpid()) > len(index) // 2
    assert data.tobytes() == index


def test_a_sum_tells_every_changed_number_and_place() -> None:
    vectors = RNG.standard_normal((50, 9)).astype(np.float32)
    sums = row_sums(vectors)
    for place in range(9):
        for bit in range(32):
            words = vectors.copy().view(np.uint32)
            words[:, place] ^= np.uint32(1 << bit)
            assert (row_sums(words.view(np.float32)) != sums).all()
    assert (row_sums(vectors[:, ::-1].copy()) != sums).all()


def test_rows_that_memory_dropped_are_fetched_together_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "some.vectors", "wb") as out:
        sums = write_vectors(out, iter((ROWS[:1000], ROWS[1000:])))
    with open(tmp_path / "some.vectors", "rb") as file:
        vectors = open_vectors(file, tmp_path / "some.vectors", DIM, sums, ReadCount())
    reads = iter([(0, 0), (0, 8), (0, 8), (0, 8), (9, 80), (9, 80), (9, 80), (9, 80)])

    def used(_: int) -> SimpleNamespace:
        waits, blocks = next(reads)
        return SimpleNamespace(ru_majflt=waits, ru_inblock=blocks)

    monkeypatch.setattr("index.engines.row_file.resource.getrusage", used)
    places = np.array([[5, 7, -1], [2000, 5, 999]])
    with vectors.reading(places):
        assert (vectors.vectors[places[1]] == ROWS[places[1]]).all()
    assert np.flatnonzero(vectors.seen).tolist() == [5, 7, 999, 2000]
    assert (vectors.count.rows, vectors.count.bytes, vectors.count.waiting) == (4, 4096, 1.0)
    with vectors.reading(places):
        pass
    assert not vectors.seen.any()  # this read waited nine times for the disk


def test_a_collection_makes_vectors_that_are_lost_or_damaged_again(tmp_path: Path) -> None:
    space, plan = Sphere(DIM), IndexPlan("IVF{cells},SQ4", "cpu", 0.9, 250, 100, "codes")
    things = [Item(f"thing {number}", (view(0, ROWS[number]),), {}) for number in range(500)]
    asked = query(ROWS[5], exact=True)
    with Collection.open(tmp_path, space, plan=plan) as collection:
        collection.upsert(things)
        collection.engines.settle()
        wanted = [hit.id for hit in collection.search(asked)]
    shutil.rmtree(tmp_path / "index")
    with Collection.open(tmp_path, space, plan=plan) as collection:
        assert [hit.id for hit in collection.search(asked)] == wanted
        reports = collection.engines.settle()
        assert [len(parts) for parts in reports.values()] == [1, 1]  # written once
        assert collection.disagreements() == []
    damaged = [*tmp_path.glob("index/*/*.vectors")]
    assert damaged
    for path in damaged:
        path.write_bytes(bytes(path.stat().st_size))
    with Collection.open(tmp_path, space, plan=plan) as collection:
        assert [hit.id for hit in collection.search(asked)] == wanted
        collection.upsert(things[:10])
        assert [hit.id for hit in collection.search(asked)] == wanted
