"""How far an ingest is: a bar on a terminal, and else a line now and then, so that a log is never silent."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
SILENCE = 10.0  # seconds between two lines
SAY: Callable[[str], None] = partial(print, flush=True)


class ProgressLines:
    """Lines such as "ingesting: 186 of 320 items"; the first comes after a while."""

    def __init__(self, title: str, total: int | None, say: Callable[[str], None] = SAY) -> None:
        self._title = title
        self._items = "" if total is None else f" of {total:,} items"
        self._say = say
        self._last = monotonic()

    def show(self, done: int) -> None:
        """Say how far it is, unless that was said lately."""
        if monotonic() - self._last >= SILENCE:
            self._last = monotonic()
            self._say(f"{self._title}: {done:,}{self._items}")


def show_progress(
    title: str, things: Iterable[T], total: int, count: Callable[[T], int] = lambda _: 1
) -> Iterator[T]:
    """The things one by one, each of so many items, and how far they are if that takes a second."""
    lines = ProgressLines(title, total)
    done = 0
    with tqdm(total=total, unit="item", desc=title, disable=None, delay=1) as bar:
        for thing in things:
            yield thing
            done += count(thing)
            bar.update(count(thing))
            if bar.disable:
                lines.show(done)
