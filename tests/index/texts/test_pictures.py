"""Texts that are seen in photos: read once, beside the searches, and known as long as the item is there."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from index.texts.pictures import PictureTexts, ReadPictures
from multifold.bundle.preprocess import ImageError
from multifold.types import Item, Observation
from tests.index.coloured import coloured
from tests.index.spaces import SPACE
from tests.index.things import caption, feature
from tests.waiting import until


class LineReader:
    """Reads files that are texts, a line each; notes how often each was read, and may be made to wait."""

    def __init__(self, name: str = "lines") -> None:
        self.id = name
        self.read_files = Counter[bytes]()
        self.may_read = threading.Event()
        self.may_read.set()

    def read(self, picture: bytes) -> tuple[str, ...]:
        assert self.may_read.wait(60)
        self.read_files[picture] += 1
        if picture == b"damaged":
            raise ImageError("this is no picture")
        if picture == b"broken":
            raise ValueError("a shape of the graph")
        return tuple(picture.decode().splitlines())


Opener = Callable[..., Collection]


@pytest.fixture
def reader() -> LineReader:
    return LineReader()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """What opens the same collection again and again, one at a time."""
    last: list[Collection] = []

    def opener(reader: LineReader | None) -> Collection:
        for one in last:
            one.close()
        last[:] = [Collection.open(tmp_path / "things", SPACE, picture_reader=reader)]
        return last[0]

    yield opener
    last[0].close()


def thing(collection: Collection, name: str, *photos: bytes) -> Item:
    keys = [collection.blobs.put(photo, ".png") for photo in photos]
    seen = [Observation("photo", place, feature(1), blob=key) for place, key in enumerate(keys)]
    return Item(name, (*seen, caption(0, feature(1), "a street")), {})


def writing(collection: Collection) -> PictureTexts:
    assert collection.writing is not None
    collection.writing.settle()
    return collection.writing


def having(collection: Collection, text: str) -> int:
    """How many items have a text in their photos."""
    return len(writing(collection).words.rank(text, 100)[0])


def test_photos_are_read_once_whatever_becomes_of_their_items(opened: Opener, reader: LineReader) -> None:
    things = opened(reader)
    stop, bank = b"STOP", b"City Bank\nopen"
    things.upsert([thing(things, "a", stop), thing(things, "b", bank, stop), thing(things, "c")])
    assert (having(things, "stop"), having(things, "bank"), having(things, "street")) == (2, 1, 0)
    things.upsert([thing(things, "a", stop, bank)])
    assert (having(things, "stop"), having(things, "bank")) == (2, 2)
    things.delete(["b"])
    assert (having(things, "stop"), having(things, "bank")) == (1, 1)
    again = opened(reader)
    assert (having(again, "stop"), having(again, "bank")) == (1, 1)
    assert reader.read_files == {stop: 1, bank: 1}
    other = LineReader("other lines")
    assert having(opened(other), "stop") == 1
    assert other.read_files == {stop: 1, bank: 1}


def test_searches_and_changes_do_not_wait(opened: Opener, reader: LineReader) -> None:
    things = opened(reader)
    reader.may_read.clear()
    things.upsert([thing(things, "a", b"one"), thing(things, "b", b"two")])
    assert things.writing is not None
    assert (things.writing.version, things.writing.waiting) == (things.version, 2)
    things.delete(["a"])
    assert things.writing.waiting == 1
    assert not len(things.writing.words.rank("two", 5)[0])
    reader.may_read.set()
    until(lambda: not things.writing or not things.writing.waiting)
    assert (having(things, "one"), having(things, "two")) == (0, 1)
    things.upsert([thing(things, "c", b"three")])  # a thread that has ended is followed by another
    assert having(things, "three") == 1


def test_a_process_that_ends_is_gone_on_from(opened: Opener, reader: LineReader) -> None:
    things = opened(reader)
    reader.may_read.clear()
    things.upsert([thing(things, f"t{n}", b"%d same" % n) for n in range(5)])
    threading.Timer(0.2, reader.may_read.set).start()
    again = opened(reader)  # closes the first, which reads one photo to its end
    assert having(again, "same") == 5
    assert set(reader.read_files.values()) == {1}


def test_a_photo_that_cannot_be_read_says_nothing(opened: Opener, reader: LineReader) -> None:
    things = opened(reader)
    things.upsert([thing(things, "a", b"damaged", b"sound", b"broken"), thing(things, "b", b"damaged")])
    assert having(things, "sound") == 1
    assert reader.read_files[b"damaged"] == 1
    assert [*writing(things).problems()] == []


def test_a_disk_that_is_away_ends_nothing_and_the_next_process_reads(
    opened: Opener, reader: LineReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = opened(reader)
    with monkeypatch.context() as away:
        away.setattr(ReadPictures, "add", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        things.upsert([thing(things, "a", b"lost"), thing(things, "b", b"found")])
        assert (having(things, "lost"), writing(things).waiting) == (0, 0)
    things.upsert([thing(things, "c", b"more")])
    assert having(things, "more") == 1
    assert having(opened(reader), "lost") == 1


def test_a_note_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    first = ReadPictures(tmp_path, "r")
    first.add("a", ("one", "two"))
    first.add("b", ())
    path = tmp_path / "r.jsonl"
    path.write_bytes(path.read_bytes() + b'\n["c", "thr')
    second = ReadPictures(tmp_path, "r")
    assert ("a" in second, "b" in second, "c" in second) == (True, True, False)
    second.add("c", ("three",))
    third = ReadPictures(tmp_path, "r")
    assert third.lines(["a", "b", "c"]) == ("one", "two", "three")
    assert "a" not in ReadPictures(tmp_path, "another")


def test_without_a_reader_nothing_is_read(opened: Opener) -> None:
    assert opened(None).writing is None


def test_a_fit_is_kept_by_who_only_reads(opened: Opener, reader: LineReader, tmp_path: Path) -> None:
    """Such a process has no reader of photos."""
    collection = opened(reader)
    collection.upsert([*coloured()[:20], thing(collection, "sign", b"STOP")])
    writing(collection)
    fitted = collection.fit_evidence()
    collection.close()
    with Collection.open(tmp_path / "things", SPACE, read_only=True) as read:
        kept = read.evidence()
    assert kept is not None
    assert kept.to_json() == fitted.to_json()
