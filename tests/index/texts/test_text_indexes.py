"""The text indexes of a collection follow its store, on every database, and are there when it is opened."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from index.collection import Collection
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.texts import text_indexes
from index.texts.contracts import ItemTexts
from index.texts.readers import ReaderIndex
from index.texts.words import WordIndex
from multifold.bundle.text_reader import open_text_reader
from multifold.types import Item
from tests import reading
from tests.index.spaces import SPACE
from tests.index.things import caption, feature, query, view
from tests.waiting import until, wait_for


def thing(name: str, text: str = "a red lamp", **payload: object) -> Item:
    return Item(name, (view(0, feature(1)), caption(0, feature(1), text)), payload)


def found(collection: Collection, text: str) -> list[str]:
    hits = collection.search(query(feature(1), limit=50, text=text, words="only"))
    return [hit.id for hit in hits]


def test_they_follow_every_change(collection: Collection, tmp_path: Path, database: str | None) -> None:
    collection.upsert([thing(f"t{n}") for n in range(5)])
    assert found(collection, "lamps") == [f"t{n}" for n in range(5)]
    collection.upsert([thing("t1", "a blue box", colour="teal")])
    assert found(collection, "boxes") == found(collection, "teal") == ["t1"]
    assert found(collection, "lamp") == ["t0", "t2", "t3", "t4"]
    collection.delete(["t0", "t2"])
    assert found(collection, "lamp") == ["t3", "t4"]
    assert collection.texts.version == collection.version
    assert (collection.texts.words.count(), collection.texts.progress) == (3, None)
    with Collection.open(tmp_path / "things", SPACE, database=database, read_only=True) as reader:
        assert found(reader, "lamp") == ["t3", "t4"]
        collection.delete(["t3"])
        collection.upsert([thing("t7")])
        assert found(reader, "lamp") == ["t4", "t7"]


def test_the_order_is_the_same_however_it_came(collection: Collection, tmp_path: Path) -> None:
    texts = [f"a {c} {k} with {n} legs" for n in range(3) for c in ("red", "blue") for k in ("chair", "lamp")]
    collection.upsert([thing(f"t{n}", "an old text") for n in range(len(texts))])
    for n, text in enumerate(texts):
        collection.upsert([thing(f"t{n}", text)])
    with Collection.open(tmp_path / "other", SPACE) as other:
        other.upsert([thing(f"t{n}", text) for n, text in enumerate(texts)])
        for asked in ("red chairs", "a lamp with 2 legs", "blue", '"red lamp"'):
            assert found(collection, asked) == found(other, asked)


def test_german_texts_have_german_stems(collection: Collection, tmp_path: Path, database: str | None) -> None:
    said = "der alte Stuhl steht auf dem Boden und ist nicht für den Garten"
    for n in range(6):
        collection.upsert([thing(f"t{n}", said)])
    assert collection.texts.words.languages == ("german",)
    collection.upsert([thing("viele", "zwei Häuser")])
    assert found(collection, "Haus") == ["viele"]
    with Collection.open(tmp_path / "things", SPACE, database=database, read_only=True) as reader:
        assert reader.texts.words.languages == ("german",)


def test_texts_whose_stems_make_another_language_likelier_are_written(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stems of either language make the texts look like those of the other."""

    def spoken(words: WordIndex) -> tuple[str, ...]:
        return ("german",) if words.languages == ("english",) else ("english",)

    monkeypatch.setattr(WordIndex, "spoken", spoken)
    for n in range(4):
        collection.upsert([thing(f"t{n}")])
    assert found(collection, "lamp") == [f"t{n}" for n in range(4)]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection whose text indexes were saved when it was closed."""
    monkeypatch.setattr(text_indexes, "SAVED_ITEMS", 1)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"t{n}") for n in range(9)])
    return tmp_path


MANY = 5  # items that only an index that is built from the store gets at once


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many items indexes were built from the store."""
    seen: list[int] = []
    add = WordIndex.add

    def noted(index: WordIndex, items: Sequence[ItemTexts]) -> None:
        seen.extend([len(items)] if len(items) > MANY else [])
        add(index, items)

    monkeypatch.setattr(WordIndex, "add", noted)
    return seen


def test_what_was_saved_is_loaded_and_goes_on(saved: Path, built: list[int]) -> None:
    for read_only in (True, False, False):
        with Collection.open(saved, SPACE, read_only=read_only) as collection:
            assert len(found(collection, "lamps")) == 9
    with Collection.open(saved, SPACE) as collection:
        collection.upsert([thing("new", "a box")])
        collection.delete(["t3"])
        assert (found(collection, "boxes"), len(found(collection, "lamp"))) == (["new"], 8)
    with Collection.open(saved, SPACE) as collection:
        assert (found(collection, "boxes"), len(found(collection, "lamp"))) == (["new"], 8)
    assert built == []
    assert len([one for one in (saved / "texts").iterdir() if one.is_dir()]) == 1


def test_a_start_with_a_few_hundred_items_builds_nothing(tmp_path: Path, built: list[int]) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"t{n}") for n in range(100)])
    built.clear()
    with Collection.open(tmp_path, SPACE) as collection:
        assert len(found(collection, "lamps")) == 50  # as many as are asked for
    assert built == []


@pytest.mark.parametrize("damage", ["current", "array", "gone"])
def test_a_damaged_save_is_built_again(saved: Path, built: list[int], damage: str) -> None:
    (folder,) = (one for one in (saved / "texts").iterdir() if one.is_dir())
    if damage == "current":
        (saved / "texts" / "current.json").write_text("{", "utf-8")
    elif damage == "array":
        (folder / "words" / "segment-texts.npy").write_bytes(b"\x93NUMPY")
    else:
        (folder / "words" / "contents.json").unlink()
    with Collection.open(saved, SPACE) as collection:
        assert len(found(collection, "lamps")) == 9
    assert built == [9]


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "lost"])
def test_every_file_of_the_text_indexes_may_be_damaged(
    saved: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [path for path in (saved / "texts").rglob("*") if path.is_file()]:
        if not name.exists():  # replaced when the one before was damaged
            continue
        raw = name.read_bytes()
        place = len(raw) * 2 // 3
        name.unlink()
        if harm != "lost":
            flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
            name.write_bytes({"cut": raw[:place], "flipped": flipped, "emptied": b""}[harm])
        with Collection.open(saved, SPACE) as collection:
            assert len(found(collection, "lamps")) == 9
            assert "built again" in caplog.text or (harm == "lost" and name.name == "current.json")
            caplog.clear()
            collection.upsert([thing("t0")])  # so that it is saved again


def test_an_older_copy_that_was_put_back_is_built_again(
    saved: Path, built: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    (older,) = (saved / "texts").glob("*/words")
    kept = {path.name: path.read_bytes() for path in older.iterdir()}
    with Collection.open(saved, SPACE) as collection:
        collection.upsert([thing("new", "a box")])
    (newer,) = (saved / "texts").glob("*/words")
    for path in newer.iterdir():
        path.unlink()
    for name, raw in kept.items():
        (newer / name).write_bytes(raw)
    with Collection.open(saved, SPACE) as collection:
        assert found(collection, "boxes") == ["new"]
    assert built == [10]
    assert "of another save" in caplog.text


def test_a_save_of_other_rules_or_a_log_cut_short_is_built_again(
    saved: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_indexes, "SAVED_ITEMS", 1_000)
    with Collection.open(saved, SPACE) as collection:
        collection.upsert([thing("new"), thing("newer")])
    compact_collection(CollectionLocation(saved), kept=1)
    with Collection.open(saved, SPACE) as collection:
        assert len(found(collection, "lamps")) == 11
    assert built == [11]
    monkeypatch.setattr(text_indexes, "RULES", 99)
    with Collection.open(saved, SPACE) as collection:
        assert len(found(collection, "lamps")) == 11
    assert built == [11, 11]


def held_additions(monkeypatch: pytest.MonkeyPatch, kind: type[WordIndex | ReaderIndex]) -> threading.Event:
    """Indexes of a kind take no items until this is set."""
    may_add, add = threading.Event(), kind.add

    def held(index: WordIndex | ReaderIndex, items: Sequence[ItemTexts]) -> None:
        wait_for(may_add, "the test to let it go on")
        add(index, items)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "add", held)
    return may_add


def test_a_large_collection_is_built_beside_its_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str | None
) -> None:
    with Collection.open(tmp_path, SPACE, database=database) as collection:
        collection.upsert([thing(f"t{n}") for n in range(30)])
    monkeypatch.setattr(text_indexes, "BACKGROUND", 10)
    may_build = held_additions(monkeypatch, WordIndex)
    with Collection.open(tmp_path, SPACE, database=database) as collection:
        assert collection.texts.progress is not None
        assert found(collection, "lamp") == []
        assert len(collection.search(query(feature(1), text="t17"))) == 10
        collection.upsert([thing("new", "a box")])
        assert found(collection, "box") == []
        may_build.set()
        collection.texts.settle()
        assert (found(collection, "box"), len(found(collection, "lamp"))) == (["new"], 30)
        assert collection.texts.progress is None


def test_words_are_found_while_a_reader_still_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str | None
) -> None:
    reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
    home = tmp_path / "things"
    with Collection.open(home, SPACE, database=database) as collection:
        collection.upsert([thing(f"t{n}", "a red car") for n in range(30)])
    monkeypatch.setattr(text_indexes, "BACKGROUND", 10)
    may_read = held_additions(monkeypatch, ReaderIndex)
    with Collection.open(home, SPACE, database=database, reader=reader) as collection:
        until(lambda: len(found(collection, "car")) == 30)
        collection.upsert([thing("t3", "a toy"), thing("new", "a guitar")])
        collection.delete(["t4"])
        assert (found(collection, "guitar"), len(found(collection, "car"))) == (["new"], 28)
        assert ([*collection.texts.current.each()], collection.texts.progress) == (["words"], 0)
        may_read.set()
        collection.texts.settle()
        assert ([*collection.texts.current.each()], collection.texts.progress) == (["words", "reader"], None)
        assert collection.disagreements() == []
        assert found(collection, "guitar") == ["new"]


def test_a_collection_is_closed_while_its_texts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"t{n}") for n in range(30)])
    for name, value in (("BACKGROUND", 10), ("PAGES", 1)):
        monkeypatch.setattr(text_indexes, name, value)
    Collection.open(tmp_path, SPACE).close()
    with Collection.open(tmp_path, SPACE) as collection:
        collection.texts.settle()
        assert len(found(collection, "lamp")) == 30


def test_a_check_counts_the_items(tmp_path: Path) -> None:
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([thing(f"t{n}") for n in range(3)])
        assert collection.disagreements() == []
        collection.texts.words.remove([2])
        assert collection.disagreements() == ["The index of words has 2 items, and the store 3."]
