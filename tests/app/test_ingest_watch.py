"""A folder is followed: what comes, changes, moves and goes is taken in, even while a run goes on."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest

from app.ingest.watching import watch_folder
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from tests.app.house import house, png

PATIENCE = 120
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


def test_a_file_that_grows_is_waited_for(root: Path) -> None:
    visited = watch_folder(root, 0.05, frozenset())
    next(visited)
    seen: list[int] = []

    def visit() -> None:
        next(visited)
        seen.append((root / "slow.png").stat().st_size)

    waiting = Thread(target=visit, daemon=True)
    waiting.start()
    with (root / "slow.png").open("wb", buffering=0) as slow:
        for _ in range(40):
            slow.write(b"x" * 100)
            time.sleep(0.005)
    waiting.join(PATIENCE)
    assert seen == [4000]


@pytest.fixture
def watching(root: Path, bundle: Path) -> Iterator[Says]:
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

    hearing = Thread(target=hear, daemon=True)
    hearing.start()

    def says(wanted: str) -> str:
        heard = []
        try:
            while wanted not in (line := lines.get(timeout=PATIENCE)):
                heard.append(line)
        except Empty:
            pytest.fail(f"{wanted!r} was never said, but {heard}")
        return line

    yield says
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
    hearing.join()
    output.close()


def ids(root: Path, bundle: Path) -> list[str]:
    with Collection.open(root.parent / "data", open_encoder(bundle), read_only=True) as opened:
        return opened.ids()


def test_the_collection_follows_the_folder(watching: Says, root: Path, bundle: Path) -> None:
    watching("1 added")
    watching("watching")
    for number in range(30):
        (root / f"more {number}.png").write_bytes(png("blue"))
    assert "30 added" in watching("added")
    (root / "red.png").write_bytes(png("green"))
    watching("1 changed")
    (root / "red.png").rename(root / "green.png")
    watching("1 moved")
    for number in range(1, 30):
        (root / f"more {number}.png").unlink()
    watching("29 deleted")
    assert ids(root, bundle) == ["more 0", "red"]


def test_a_service_may_come_and_go(watching: Says, root: Path, bundle: Path) -> None:
    watching("watching")
    with house(root.parent / "data", bundle) as shop:
        (root / "blue.png").write_bytes(png("blue"))
        watching("1 added")
        assert shop.best(text="blue", target="image") == "blue"
    (root / "green.png").write_bytes(png("green"))
    watching("1 added")
    assert ids(root, bundle) == ["blue", "green", "red"]
