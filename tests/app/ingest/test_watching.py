"""A folder is followed: what comes, changes, moves and goes is taken in, even while a run goes on."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest

from app.ingest import watching
from app.ingest.watching import FolderWatch, hash_folder_state
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from tests.app.house import house, png
from tests.waiting import PATIENCE

OVER = ""  # the line after the last

Says = Callable[[str], str]


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
    heeded = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # not so in the background
    code = f"import signal, sys; from multifold.cli import main; {heeded}; sys.exit(main(sys.argv[1:]))"
    words = ["ingest", str(root), "--data", str(root.parent / "data"), "--bundle", str(bundle)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--watch", "--every", "0.2", "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    output = process.stdout

    def hear() -> None:
        for line in output:
            lines.put(line)
        lines.put(OVER)

    hearing = Thread(target=hear, daemon=True)
    hearing.start()

    def wait(wanted: str) -> str:
        heard = []
        try:
            while wanted not in (line := lines.get(timeout=PATIENCE)) and line != OVER:
                heard.append(line)
        except Empty:
            line = OVER
        if line == OVER:
            pytest.fail(f"{wanted!r} was never said, but {''.join(heard)}")
        return line

    yield wait
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
    hearing.join()
    output.close()


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
    assert "10 added" in says("added")
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
