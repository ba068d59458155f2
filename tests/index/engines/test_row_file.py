"""Codes in memory, vectors in files: the same answers, checked when they are read, and no file left over."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index import engine_factory
from index.collection import Collection
from index.contracts import IndexEngineError, IndexPlan, RowsLostError
from index.engine_factory import EngineFactory
from index.engines import row_file
from index.engines.faiss_engine import FaissEngine
from index.engines.row_file import ReadCount, open_vectors, row_sums, write_vectors
from index.engines.saved_engines import SEALED, remove_unlinked_segments
from multifold.machine import memory_limit
from multifold.types import Item
from tests.index.engines.clustered_rows import COUNT, DIM, QUERIES, RNG, ROWS, reference, share_found
from tests.index.spaces import Sphere
from tests.index.things import query, view


def engine(home: Path | None, seal_at: int = COUNT) -> FaissEngine:
    return FaissEngine(DIM, "l2", IndexPlan("auto", "cpu", 0.95, seal_at, 100, "codes"), home=home)


def filled(home: Path | None) -> FaissEngine:
    live = engine(home)
    live.add(np.arange(COUNT), ROWS)
    live.settle()
    return live


@pytest.mark.parametrize("at_home", [True, False])
def test_vectors_in_files_answer_as_those_in_memory_do(tmp_path: Path, at_home: bool) -> None:
    live, exact = filled(tmp_path / "home" if at_home else None), reference()
    (report,) = live.reports()
    assert report.type == "IVF64,SQ4"
    assert report.file_bytes_per_row == 4 * DIM
    assert report.bytes_per_row < DIM / 2 + 8 + 17 + 64 * 4 * DIM / COUNT + 1
    assert "in a file" in str(report)
    assert share_found(live, exact) >= 0.95
    chosen = RNG.permutation(COUNT)[:600]
    for allowed in (None, chosen, chosen[:7]):
        for wanted, given in zip(
            exact.search(QUERIES, 25, allowed), live.search(QUERIES, 25, allowed, exact=True), strict=True
        ):
            assert wanted.tolist() == given.tolist()
        near = float(exact.search(QUERIES[:1], 25, allowed)[0].max()) - 5
        assert live.range(QUERIES[0], near, allowed)[1].tolist() == (
            exact.range(QUERIES[0], near, allowed)[1].tolist()
        )
    assert live.read_count.rows > 0
    live.close()


def test_rows_that_are_filled_in_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live, exact = engine(tmp_path / "home", seal_at=1 << 20), reference()
    monkeypatch.setattr(live, "_seal_if_due", lambda: None)
    with live.filling():
        for start in range(0, COUNT, 500):
            live.add(np.arange(start, start + 500), ROWS[start : start + 500])
    filled_in, fresh = (part.rows for part in live.parts)
    assert (len(fresh.ids), len(filled_in.ids)) == (500, COUNT - 500)  # so few rows stay in memory
    assert live.search(QUERIES, 25)[1].tolist() == exact.search(QUERIES, 25)[1].tolist()
    (before,) = (tmp_path / "home").glob("*.vectors")
    node = before.stat().st_ino
    (tmp_path / "save").mkdir()
    live.save(tmp_path / "save" / "rows")
    live.close()
    again = engine(tmp_path / "home", seal_at=1 << 20)
    again.load(tmp_path / "save" / "rows")
    again.settle()
    (report,) = again.reports()
    assert (report.type, report.rows, report.target) == ("IVF64,SQ4", COUNT - 500, 0.95)
    assert {path.stat().st_ino for path in (tmp_path / "home").glob("*.vectors")} == {node}
    assert share_found(again, exact) >= 0.95
    again.close()


def test_rows_are_filled_in_in_the_order_of_their_ids(tmp_path: Path) -> None:
    live = engine(tmp_path)
    with live.filling():
        live.add(np.arange(500), ROWS[:500])
        live.add(np.arange(700, 900), ROWS[700:900])
        with pytest.raises(IndexEngineError, match="rising ids"):
            live.add(np.arange(600, 800), ROWS[600:800])
    assert live.count() == 700
    live.close()


def test_a_build_of_rows_that_were_filled_in_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, exact = engine(tmp_path), reference()

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(live._builder.__class__, "build", fail)
    with live.filling():
        live.add(np.arange(100), ROWS[:100])
        live.add(np.arange(100, COUNT), ROWS[100:])
    with pytest.raises(MemoryError):
        live.settle()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".rows", ".vectors"]
    assert live.search(QUERIES, 25)[1].tolist() == exact.search(QUERIES, 25)[1].tolist()
    live.close()


def test_a_filter_reads_only_rows_that_it_allows(tmp_path: Path) -> None:
    live = filled(tmp_path)
    allowed = np.sort(RNG.permutation(COUNT)[: COUNT // 2])
    live.search(QUERIES, 10, allowed)
    file = live.parts[0].rows.file
    assert file is not None
    before = file.seen.copy()
    file.seen[:] = False
    live.search(QUERIES, 10, allowed)
    assert before.any()
    assert file.seen.any()
    assert not file.seen[np.setdiff1d(np.arange(COUNT), allowed)].any()
    live.close()


@pytest.mark.parametrize("dead", [0, 400])
def test_a_filter_of_few_rows_scores_their_codes_first(tmp_path: Path, dead: int) -> None:
    live, exact = filled(tmp_path), reference()
    for one in (live, exact):
        one.remove(np.arange(dead))
    allowed = np.sort(RNG.permutation(COUNT)[: COUNT // 8])
    file = live.parts[0].rows.file
    assert file is not None
    file.seen[:] = False
    live.search(QUERIES[:1], 3, allowed)
    seen = np.flatnonzero(file.seen)
    assert 3 <= len(seen) < len(allowed) / 2
    assert np.isin(seen, allowed[allowed >= dead]).all()
    found, wanted = live.search(QUERIES, 3, allowed), exact.search(QUERIES, 3, allowed)
    assert np.mean(found[0] >= wanted[0][:, -1:]) >= 0.95
    assert np.isin(found[1], allowed[allowed >= dead]).all()
    live.close()


def test_a_collection_that_is_derived_anew_writes_vectors_once(tmp_path: Path) -> None:
    space, plan = Sphere(DIM), IndexPlan("IVF{cells},SQ4", "cpu", 0.9, 1000, 100, "codes")
    things = [Item(f"thing {number}", (view(0, ROWS[number]),), {}) for number in range(COUNT)]
    with Collection.open(tmp_path, space, plan=plan) as collection:
        collection.upsert(things)
        wanted = [hit.id for hit in collection.search(query(ROWS[5], exact=True))]
    shutil.rmtree(tmp_path / "index")
    with Collection.open(tmp_path, space, plan=plan) as collection:
        assert [hit.id for hit in collection.search(query(ROWS[5], exact=True))] == wanted
        reports = collection.engines.settle()
        assert [len(parts) for parts in reports.values()] == [1, 1]
        assert collection.disagreements() == []
        collection.upsert(things[:10])
        assert [hit.id for hit in collection.search(query(ROWS[5], exact=True))] == wanted


def test_rows_that_change_are_merged_into_new_files(tmp_path: Path) -> None:
    live, exact = filled(tmp_path), reference()
    (before,) = tmp_path.glob("*.vectors")
    for one in (live, exact):
        one.remove(np.arange(0, COUNT, 3))
        one.add(np.arange(0, COUNT, 6), ROWS[::-1][: len(range(0, COUNT, 6))])
    live.settle()
    assert sum(report.rows for report in live.reports()) == len(live.parts[0].rows)
    assert live.search(QUERIES, 25, exact=True)[1].tolist() == exact.search(QUERIES, 25)[1].tolist()
    assert share_found(live, exact) >= 0.95
    files = {path.suffix: path for path in tmp_path.iterdir()}
    assert set(files) == {".rows", ".vectors"}
    assert len([*tmp_path.iterdir()]) == 2 * len(live.reports())
    assert not before.exists()
    live.close()


def test_a_part_that_is_tuned_again_keeps_its_vectors(tmp_path: Path) -> None:
    live = filled(tmp_path)
    (before,) = tmp_path.glob("*.vectors")
    node = before.stat().st_ino
    live._retune(live._free(), QUERIES)
    live.settle()
    (after,) = tmp_path.glob("*.vectors")
    assert after != before
    assert after.stat().st_ino == node
    assert len([*tmp_path.iterdir()]) == 2
    assert share_found(live, reference()) >= 0.95
    live.close()


def saved(folder: Path) -> tuple[Path, Path]:
    """The file of an engine that was saved, and that of its vectors."""
    live = filled(folder / "home")
    (folder / "save").mkdir()
    live.save(folder / "save" / "rows")
    live.close()
    (vectors,) = (folder / "save").glob("*.vectors")
    return folder / "save" / "rows", vectors


def test_a_saved_engine_reads_no_vector_when_it_is_opened(tmp_path: Path) -> None:
    path, vectors = saved(tmp_path)
    again = engine(tmp_path / "home")
    again.load(path)
    assert (again.read_count.reads, again.read_count.waiting) == (0, 1.0)
    assert share_found(again, reference()) >= 0.95
    seen = again.parts[0].rows.file
    assert seen is not None
    assert 0 < np.count_nonzero(seen.seen) < COUNT
    again.remove(np.arange(5))
    again.save(tmp_path / "save" / "later")
    assert sorted(one.suffix for one in vectors.parent.iterdir()) == ["", "", ".rows", ".vectors"]
    again.close()


def test_a_flipped_bit_of_a_vector_is_told_when_it_is_read(tmp_path: Path) -> None:
    path, vectors = saved(tmp_path)
    whole = bytearray(vectors.read_bytes())
    whole[4 * DIM * 77 + 13] ^= 1
    vectors.write_bytes(bytes(whole))
    again = engine(tmp_path / "home")
    again.load(path)
    with pytest.raises(RowsLostError, match="damaged"):
        again.search(ROWS[77:78], 10)
    with pytest.raises(RowsLostError, match="damaged"):
        again.search(QUERIES[:1], 10, exact=True)
    again.close()


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: b"", lambda whole: whole + whole])
def test_a_file_of_vectors_of_another_size_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path, vectors = saved(tmp_path)
    vectors.write_bytes(damage(vectors.read_bytes()))
    again = engine(tmp_path / "home")
    with pytest.raises(IndexEngineError, match="vectors of 32"):
        again.load(path)
    assert again.count() == 0
    vectors.unlink()
    with pytest.raises(OSError, match="No such file"):
        again.load(path)
    again.close()


def test_files_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    live = filled(tmp_path / SEALED)
    (tmp_path / "save").mkdir()
    live.save(tmp_path / "save" / "rows")
    linked = {path.name for path in (tmp_path / SEALED).iterdir()}
    stray = tmp_path / SEALED / "0123.vectors"
    stray.write_bytes(b"left")
    remove_unlinked_segments(tmp_path)
    assert {path.name for path in (tmp_path / SEALED).iterdir()} == linked
    live.close()


def test_a_build_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = engine(tmp_path)

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(live._builder.__class__, "build", fail)
    live.add(np.arange(COUNT), ROWS)
    with pytest.raises(MemoryError):
        live.settle()
    assert [*tmp_path.iterdir()] == []
    live.close()


def test_rows_so_few_that_each_is_read_stay_in_memory(tmp_path: Path) -> None:
    live = FaissEngine(DIM, "l2", IndexPlan("auto", "cpu", 0.95, 500, 2000, "codes"), home=tmp_path)
    for start, end, wanted in ((0, 600, [0.0]), (600, COUNT, [4.0 * DIM])):
        live.add(np.arange(start, end), ROWS[start:end])
        live.settle()
        assert [report.file_bytes_per_row for report in live.reports()] == wanted
    live.close()


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
    waits = iter([(0, 0), (0, 8), (0, 8), (0, 8), (9, 80), (9, 80), (9, 80), (9, 80)])
    monkeypatch.setattr(row_file, "_disk_reads", lambda: next(waits))
    places = np.array([[5, 7, -1], [2000, 5, 999]])
    with vectors.reading(places):
        assert (vectors.vectors[places[1]] == ROWS[places[1]]).all()
    assert np.flatnonzero(vectors.seen).tolist() == [5, 7, 999, 2000]
    assert (vectors.count.rows, vectors.count.bytes, vectors.count.waiting) == (4, 4096, 1.0)
    with vectors.reading(places):
        pass
    assert not vectors.seen.any()  # this read waited nine times for the disk


def test_a_collection_makes_damaged_vectors_again(tmp_path: Path) -> None:
    space, plan = Sphere(DIM), IndexPlan("IVF{cells},SQ4", "cpu", 0.9, 1000, 100, "codes")
    things = [Item(f"thing {number}", (view(0, ROWS[number]),), {}) for number in range(COUNT)]
    with Collection.open(tmp_path, space, plan=plan) as collection:
        collection.upsert(things)
        collection.engines.settle()
        wanted = [hit.id for hit in collection.search(query(ROWS[5], exact=True))]
    damaged = [*tmp_path.glob("index/*/*.vectors")]
    assert damaged
    for path in damaged:
        path.write_bytes(bytes(path.stat().st_size))
    with Collection.open(tmp_path, space, plan=plan) as collection:
        assert [hit.id for hit in collection.search(query(ROWS[5], exact=True))] == wanted


def test_auto_keeps_vectors_in_files_where_they_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = IndexPlan("auto", "cpu", 0.9, 1000, 100)
    for limit, apart in ((1 << 40, False), (4 * DIM * COUNT * 2, True)):
        monkeypatch.setattr(engine_factory, "memory_limit", lambda limit=limit: limit)
        live = EngineFactory(Sphere(DIM), plan, tmp_path / str(apart))(("image", "pooled"))
        live.add(np.arange(COUNT), ROWS)
        assert isinstance(live, FaissEngine)
        live.settle()
        assert [report.file_bytes_per_row > 0 for report in live.reports()] == [apart]
        live.close()


@pytest.mark.parametrize(
    ("wanted", "setting", "apart"),
    [
        ("auto", "codes", True),
        ("resident", "codes", False),
        ("codes", "resident", True),
        ("auto", "auto", False),
    ],
)
def test_the_plan_says_more_than_the_setting(wanted: str, setting: str, apart: bool) -> None:
    plan = IndexPlan(memory=wanted)  # type: ignore[arg-type]
    assert EngineFactory(Sphere(DIM), plan, None, memory=setting)._apart() is apart  # type: ignore[arg-type]


def test_the_memory_of_a_container_counts(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("max", "none", "limit")]
    (tmp_path / "max").write_text("max\n")
    assert memory_limit(files) == memory_limit([])
    (tmp_path / "limit").write_text("1048576\n")
    assert memory_limit(files) == 1 << 20
