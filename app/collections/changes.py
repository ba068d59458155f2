"""Changes of one collection, in turn. Those that wait meanwhile are made together, in one transaction.

A change of a request is refused before any work is done for it, or dropped while it waits, or its outcome is
told: once it has begun, it is not given up. A job that is cancelled waits for nothing.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from app.concurrency.batching import Batcher, OnBatch
from app.ingest.pipeline import Encoded, Written
from app.settings import Settings
from index.collection import Collection
from index.store.browse import editions_of

T = TypeVar("T")


@dataclass(frozen=True)
class ItemWrite:
    """Items to write, which are made when their turn comes."""

    names: Sequence[str]
    make: Callable[[], Sequence[Encoded]]


@dataclass(frozen=True)
class ItemRemoval:
    """Items to remove."""

    names: Sequence[str]


Change: TypeAlias = ItemWrite | ItemRemoval | Callable[[], Any]


class ChangeQueue:
    """The changes of requests; `put` writes items, and `writing` is held by whoever changes anything."""

    def __init__(
        self,
        collection: Collection,
        put: Callable[[Sequence[Encoded]], list[Written]],
        writing: threading.RLock,
        settings: Settings,
        watch: OnBatch,
    ) -> None:
        self._collection, self._put, self._writing = collection, put, writing
        self._changes: Batcher[Change, Any] = Batcher(
            self._carry_out, most=settings.batch, room=settings.queue, watch=watch
        )
        self.refuse_if_full = self._changes.refuse_if_full
        self.close = self._changes.close

    @property
    def waiting(self) -> int:
        return self._changes.waiting

    async def write(
        self,
        names: Sequence[str],
        make: Callable[[], Sequence[Encoded]],
        *,
        admitted: bool = False,
        of_job: bool = False,
    ) -> list[Written]:
        """Write items, and say what became of each."""
        change = ItemWrite(names, make)
        written: list[Written] = await self._changes.ask(change, admitted=admitted, finishes=not of_job)
        return written

    async def remove(self, names: Sequence[str], *, of_job: bool = False) -> int:
        """Remove items; returns how many of them there were."""
        change = ItemRemoval(names)
        removed: int = await self._changes.ask(change, admitted=of_job, finishes=not of_job)
        return removed

    async def run(self, work: Callable[[], T], *, of_job: bool = False) -> T:
        done: T = await self._changes.ask(work, admitted=of_job, finishes=not of_job)
        return done

    def _carry_out(self, changes: Sequence[Change]) -> list[Any]:
        """The outcome of each change; what went wrong with one does not concern the others."""
        return [outcome for some in _groups(changes) for outcome in self._together(some)]

    def _together(self, changes: Sequence[Change]) -> list[Any]:
        """The outcomes of any one change, or of some that concern different items."""
        if callable(changes[0]):
            return [_outcome(changes[0])]
        with self._writing:
            written = iter(self._write([one for one in changes if isinstance(one, ItemWrite)]))
            removed = iter(self._remove([one for one in changes if isinstance(one, ItemRemoval)]))
        return [next(written if isinstance(one, ItemWrite) else removed) for one in changes]

    def _write(self, writes: Sequence[ItemWrite]) -> list[list[Written] | Exception]:
        made = [_outcome(one.make) for one in writes]
        every = [item for items in made if not isinstance(items, Exception) for item in items]
        written = _outcome(partial(self._put, every))
        if isinstance(written, Exception):  # each by itself
            return [one if isinstance(one, Exception) else _outcome(partial(self._put, one)) for one in made]
        rest = iter(written)
        return [one if isinstance(one, Exception) else [next(rest) for _ in one] for one in made]

    def _remove(self, removals: Sequence[ItemRemoval]) -> Sequence[int | Exception]:
        names = [name for one in removals for name in one.names]

        def remove() -> list[int]:
            there = self._collection.read(editions_of, names)
            self._collection.delete([*there])
            return [len(there.keys() & set(one.names)) for one in removals]

        removed = _outcome(remove) if names else [0] * len(removals)
        return [removed] * len(removals) if isinstance(removed, Exception) else removed


def _groups(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Changes of different items together, each other one by itself, in order."""
    group, names = list[Change](), set[str]()
    for change in changes:
        own = set() if callable(change) else set(change.names)
        if group and (callable(change) or callable(group[0]) or own & names):
            yield group
            group, names = [], set()
        group.append(change)
        names |= own
    if group:
        yield group


def _outcome(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 (it is raised where the answer is awaited)
        return error
