"""Saved engines are loaded when they fit, caught up from the log, and otherwise rebuilt."""

from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import IndexPlan
from index.engine_set import engine_set
from index.engines import faiss_engine, saved_engines
from index.engines.builder import SegmentBuilder
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import answers, query, thing

PLAN = IndexPlan("Flat", "cpu", seal_at=40)


def opened(folder: Path, plan: IndexPlan = PLAN) -> Collection:
    return Collection.open(folder, SPACE, plan=plan)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    rng = np.random.default_rng(0)
    with opened(tmp_path) as collection:
        collection.upsert([thing(f"item {n}", rng) for n in range(100)])
        collection.delete(["item 3"])
    return tmp_path


def hits(folder: Path, plan: IndexPlan = PLAN) -> list[object]:
    with opened(folder, plan) as collection:
        return [answers(collection.search(query(np.eye(FEATURE)[n], limit=20))) for n in range(FEATURE)]


def rebuilt(folder: Path, monkeypatch: pytest.MonkeyPatch, plan: IndexPlan = PLAN) -> bool:
    """Whether opening derives from the first change on."""
    with monkeypatch.context() as patch:
        seen: list[object] = []
        load = saved_engines.SavedEngines.load

        def noted(*arguments: object) -> object:
            seen.append(load(*arguments))  # type: ignore[arg-type]
            return seen[-1]

        patch.setattr(saved_engines.SavedEngines, "load", noted)
        opened(folder, plan).close()
    return seen == [None]


def test_what_was_saved_is_loaded_and_caught_up(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = hits(made)
    assert not rebuilt(made, monkeypatch)
    (folder,) = [
        path for path in (made / "index").iterdir() if path.is_dir() and path.name != saved_engines.SEALED
    ]
    monkeypatch.setattr(saved_engines.SavedEngines, "save", lambda *_: None)  # as if killed
    with opened(made) as collection:
        collection.delete(["item 5"])
        collection.upsert([thing("new", np.random.default_rng(9))])
    assert not rebuilt(made, monkeypatch)
    caught_up = hits(made)
    for path in folder.iterdir():
        path.unlink()
    assert rebuilt(made, monkeypatch)
    assert hits(made) == caught_up != before


def test_the_more_there_is_the_more_a_save_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    monkeypatch.setattr(engine_set, "SAVE_AFTER", 4)
    monkeypatch.setattr(engine_set, "SAVE_SHARE", 2)
    versions: list[int] = []
    monkeypatch.setattr(saved_engines.SavedEngines, "save", lambda _, version, __: versions.append(version))
    rng = np.random.default_rng(0)
    with opened(tmp_path) as collection:
        for number in range(40):
            collection.upsert([thing(f"item {number}", rng)])
    assert versions == [3, 7, 13, 25, 40]


def parts(collection: Collection) -> dict[object, list[object]]:
    return {
        name: [one.as_json() for one in reports] for name, (_, reports) in collection.engines.sealed().items()
    }


def test_what_was_sealed_after_the_last_save_is_saved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_set, "SAVED_ROWS", 1)
    rng = np.random.default_rng(0)
    with monkeypatch.context() as slowly, opened(tmp_path) as collection:
        slowly.setattr(faiss_engine, "segments_to_merge", lambda *_, **__: [])
        collection.upsert([thing(f"item {n}", rng) for n in range(100)])
        version = collection.version
    with opened(tmp_path) as collection:
        collection.engines.settle()
        sealed = parts(collection)
        assert all(sealed.values())
    monkeypatch.setattr(SegmentBuilder, "build", None)  # nothing is sealed anew
    with opened(tmp_path) as collection:
        assert (collection.version, parts(collection)) == (version, sealed)


def test_a_store_put_back_from_a_copy_is_not_searched_by_the_index_of_another(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has as many changes in the end, but other ones."""
    copy = (made / "store.sqlite").read_bytes()
    with opened(made) as collection:
        collection.delete([f"item {n}" for n in range(10, 50)])
    (made / "store.sqlite").write_bytes(copy)
    with monkeypatch.context() as killed, opened(made) as collection:
        killed.setattr(saved_engines.SavedEngines, "save", lambda *_: None)
        collection.delete([f"item {n}" for n in range(50, 95)])
    found = hits(made)
    assert found == hits(made, IndexPlan("exact"))


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "lost"])
def test_every_file_of_an_index_may_be_damaged(
    made: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torn by a crash or rotten, or of another plan: what is searched is right all the same."""
    right = hits(made)
    assert rebuilt(made, monkeypatch, IndexPlan("exact"))
    assert hits(made, IndexPlan("exact")) == right == hits(made)
    names = [path for path in (made / "index").rglob("*") if path.is_file()]
    assert len(names) > 3
    for name in names:
        if not name.exists():  # replaced when the one before was rebuilt
            continue
        raw = name.read_bytes()
        place = len(raw) * 2 // 3
        name.unlink()
        if harm != "lost":
            flipped = raw[:place] + bytes([raw[place] ^ 16]) + raw[place + 1 :]
            name.write_bytes({"cut": raw[:place], "flipped": flipped, "emptied": b""}[harm])
        assert hits(made) == right


def put_back(folder: Path, kept: dict[str, bytes]) -> None:
    for path in (folder / "index").rglob("*-*"):
        if path.is_file() and (old := kept.get(path.name.split(".")[0] + path.suffix)):
            path.unlink()
            path.write_bytes(old)


def kept(folder: Path) -> dict[str, bytes]:
    """The files of each engine: that of fresh rows, and of one sealed part."""
    files = [path for path in (folder / "index").rglob("*-*") if path.is_file()]
    return {path.name.split(".")[0] + path.suffix: path.read_bytes() for path in files}


SWAPS = {
    "sides": {"shape-pooled": "text-pooled", "text-pooled": "shape-pooled"},
    "kinds": {"shape-pooled": "shape-observation", "shape-observation": "shape-pooled"},
}


@pytest.mark.parametrize("end", ["", ".rows"])
@pytest.mark.parametrize("swap", SWAPS)
def test_files_that_were_swapped_are_made_anew(
    made: Path, swap: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    right = hits(made)
    files = kept(made)
    put_back(made, {to + end: files[of + end] for to, of in SWAPS[swap].items()})
    assert hits(made) == right
    assert "is another file: it names the " in caplog.text


def test_files_of_another_collection_or_of_an_older_save_are_made_anew(
    made: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path_factory.mktemp("other")
    with opened(other) as collection:
        collection.upsert([thing(f"item {n}", np.random.default_rng(n)) for n in range(100)])
        collection.delete(["item 3"])
    older = kept(made)
    with opened(made) as collection:
        collection.delete([f"item {n}" for n in range(50, 90)])
        collection.engines.keep()
    right = hits(made)
    for files, name in ((older, "generation"), (kept(other), "collection")):
        caplog.clear()
        put_back(made, files)
        assert hits(made) == right
        assert f"it names the {name}" in caplog.text


def test_a_list_of_files_that_does_not_fit_is_told(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    right = hits(made)
    current = made / "index" / saved_engines.CURRENT
    current.write_text(current.read_text().replace('"session": "', '"session": "0'))
    assert hits(made) == right
    assert "it was saved for another session" in caplog.text
