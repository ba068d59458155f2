"""A folder is followed: what comes, changes, moves and goes is taken in, even while a run goes on."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from types import SimpleNamespace

import pytest

from app.ingest import watching
from app.ingest.watching import watch_folder
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


def within_reason(wait: Callable[[], object]) -> bool:
    """Whether it came to an end."""
    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    return not waiting.is_alive()


def test_what_changes_during_a_run_is_seen_after_it(root: Path) -> None:
    visited = watch_folder(root, 0.01, frozenset())
    for name in ("first", "second"):
        assert within_reason(lambda: next(visited))
        (root / f"{name}.png").write_bytes(b"while the run goes on")
    assert within_reason(lambda: next(visited))


def test_a_file_that_grows_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = root / "slow.png"

    def grow(_seconds: float) -> None:
        """Between two looks at it, up to a size."""
        if not grown.exists() or grown.stat().st_size < 4000:
            with grown.open("ab") as slow:
                slow.write(b"x" * 100)

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=grow))
    visited = watch_folder(root, 0.05, frozenset())
    next(visited)
    next(visited)
    assert grown.stat().st_size == 4000


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


def ids(root: Path, bundle: Path) -> list[str]:
    with Collection.open(root.parent / "data", open_encoder(bundle), read_only=True) as opened:
        return opened.ids()


def test_the_collection_follows_the_folder(says: Says, root: Path, bundle: Path) -> None:
    says("1 added")
    says("watching")
    more = root.parent / "more"
    more.mkdir()
    for number in range(30):
        (more / f"{number}.png").write_bytes(png("blue"))
    more.rename(root / "more")
    assert "30 added" in says("added")
    place(root / "red.png", png("green"))
    says("1 changed")
    (root / "red.png").rename(root / "green.png")
    says("1 moved")
    (root / "more").rename(more)
    says("30 deleted")
    assert ids(root, bundle) == ["red"]


def test_a_service_may_come_and_go(says: Says, root: Path, bundle: Path) -> None:
    says("watching")
    with house(root.parent / "data", bundle) as shop:
        place(root / "blue.png", png("blue"))
        says("1 added")
        assert shop.best(text="blue", target="image") == "blue"
    place(root / "green.png", png("green"))
    says("1 added")
    assert ids(root, bundle) == ["blue", "green", "red"]
