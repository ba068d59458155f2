"""A folder is followed: what comes, changes, moves and goes is taken in, even while a run goes on."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.ingest import watching
from app.ingest.watching import FolderWatch, hash_folder_state
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from tests.app.house import house, png
from tests.app.process import running

Says = Callable[[str], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "things"
    folder.mkdir()
    (folder / "red.png").write_bytes(png("red"))
    return folder


def watch(root: Path, pause: Callable[[float], object] = lambda _: None) -> FolderWatch:
    return FolderWatch(root, frozenset(), 0.0, pause)


def test_a_look_sees_every_change(root: Path) -> None:
    first = hash_folder_state(root, frozenset())
    assert hash_folder_state(root, frozenset()) == first
    (root / "more").mkdir()
    (root / "more" / "new.png").write_bytes(b"x")
    second = hash_folder_state(root, frozenset())
    assert second != first
    assert hash_folder_state(root, frozenset([(root / "more").resolve()])) != second


def test_a_change_is_waited_for(root: Path) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            (root / "new.png").write_bytes(b"new")

    watching = watch(root, pause)
    before = watching.state()
    assert not watching.changed(before)
    watching.wait_for_change(before)
    assert len(pauses) >= 3


def test_looks_take_a_small_part_of_the_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(folder: Path, skip: frozenset[Path]) -> bytes:
        looks.append(folder)
        return bytes(len(looks))

    monkeypatch.setattr(watching, "hash_folder_state", look)
    rarely = FolderWatch(root, frozenset(), 1000.0)
    assert [rarely.changed(b"") for _ in range(5)] == [True, False, False, False, False]
    assert looks == [root]


@pytest.mark.parametrize("looks", [None, 5])
def test_a_file_that_grows_is_waited_for(root: Path, looks: int | None) -> None:
    grown = root / "slow.png"

    def grow(_: float) -> None:
        """Between two looks at it, up to a size."""
        if not grown.exists() or grown.stat().st_size < 4000:
            with grown.open("ab") as slow:
                slow.write(b"x" * 100)

    state = watch(root, grow).settled(looks)
    assert grown.stat().st_size == (4000 if looks is None else 500)
    assert state == hash_folder_state(root, frozenset())


@pytest.fixture
def says(root: Path, bundle: Path) -> Iterator[Says]:
    """The command at work; ask what line holds some words, and it waits for it."""
    words = ["ingest", str(root), "--data", str(root.parent / "data"), "--bundle", str(bundle)]
    with running(*words, "--watch", "--every", "0.2", "--workers", "1") as command:
        yield command.says
        command.process.send_signal(signal.SIGINT)
        assert command.wait() == 130


def place(path: Path, data: bytes) -> None:
    """Write a file into the folder at one moment: between two writes the folder might be looked at."""
    beside = path.parent.with_name("beside")
    beside.write_bytes(data)
    beside.rename(path)


def test_the_collection_follows_the_folder_and_a_service_may_come_and_go(
    says: Says, root: Path, bundle: Path
) -> None:
    says("1 added")
    says("watching")
    more = root.parent / "more"
    more.mkdir()
    for number in range(10):
        (more / f"{number}.png").write_bytes(png("blue"))
    more.rename(root / "more")
    says("10 added")
    place(root / "red.png", png("green"))
    says("1 changed")
    (root / "red.png").rename(root / "green.png")
    says("1 moved")
    (root / "more").rename(more)
    says("10 deleted")
    with house(root.parent / "data", bundle) as shop:
        place(root / "blue.png", png("blue"))
        says("1 added")
        assert shop.best(text="blue", target="image") == "blue"
    place(root / "yellow.png", png("yellow"))
    says("1 added")
    with Collection.open(root.parent / "data", open_encoder(bundle), read_only=True) as opened:
        assert opened.ids() == ["blue", "red", "yellow"]


def test_a_folder_that_goes_is_a_change_though_it_was_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    there = hash_folder_state(empty, frozenset())
    empty.rmdir()
    assert hash_folder_state(empty, frozenset()) != there
