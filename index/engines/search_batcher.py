"""Searches of many threads in batches, at no cost to the one that comes alone.

A caller that finds a free lane searches at once. While all lanes are taken, callers wait together; the lane
that becomes free is handed to one of them, who searches for all that wait with the same limit. Each lane
uses its share of the cores (FAISS keeps the number of OpenMP threads for each calling thread).
"""

import threading
from collections.abc import Callable

import numpy as np

from index.contracts import RowRankings
from multifold.types import Vectors

MOST = 256  # queries of one batch


class _Call:
    """One caller's queries, and later their answer."""

    def __init__(self, queries: Vectors, limit: int) -> None:
        self.queries = queries
        self.limit = limit
        self.leads = False
        self.woken: threading.Event | None = None  # made by those who have to wait
        self.answer: RowRankings | None = None
        self.error: BaseException | None = None


class SearchBatcher:
    """Runs searches on `lanes` threads at most, which are those of the callers."""

    def __init__(self, run: Callable[[Vectors, int, int], RowRankings], lanes: int, cores: int) -> None:
        self._run = run  # queries, limit, threads
        self._lanes = lanes
        self._cores = cores
        self._lock = threading.Lock()
        self._busy = 0
        self._waiting: list[_Call] = []

    def search(self, queries: Vectors, limit: int) -> RowRankings:
        """The answer to these queries, perhaps found together with others'."""
        if len(queries) <= MOST:
            return self._joined(_Call(queries, limit))
        pieces = [queries[start : start + MOST] for start in range(0, len(queries), MOST)]
        answers = [self._joined(_Call(piece, limit)) for piece in pieces]
        scores, ids = zip(*answers, strict=True)
        return np.concatenate(scores), np.concatenate(ids)

    def _joined(self, call: _Call) -> RowRankings:
        with self._lock:
            call.leads = self._busy < self._lanes
            self._busy += call.leads
            if not call.leads:
                call.woken = threading.Event()
                self._waiting.append(call)
        if call.woken is not None:
            call.woken.wait()
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error
        assert call.answer is not None
        return call.answer

    def _lead(self, call: _Call) -> None:
        """Answer this call and those that wait for the same, then hand the lane on."""
        with self._lock:
            batch, threads = self._batch(call), max(1, self._cores // self._busy)
        try:
            queries = call.queries if len(batch) == 1 else np.concatenate([one.queries for one in batch])
            scores, ids = self._run(queries, call.limit, threads)
            start = 0
            for one in batch:
                end = start + len(one.queries)
                one.answer, start = (scores[start:end], ids[start:end]), end
        except BaseException as error:  # noqa: BLE001 (each caller raises it)
            for one in batch:
                one.error = error
        finally:
            self._hand_on(batch[1:])

    def _batch(self, call: _Call) -> list[_Call]:
        batch, size = [call], len(call.queries)
        for one in self._waiting:
            if one.limit == call.limit and size + len(one.queries) <= MOST:
                batch.append(one)
                size += len(one.queries)
        self._waiting = [one for one in self._waiting if one not in batch]
        return batch

    def _hand_on(self, answered: list[_Call]) -> None:
        with self._lock:
            if self._waiting:
                heir = self._waiting.pop(0)
                heir.leads = True
                answered = [*answered, heir]
            else:
                self._busy -= 1
        for one in answered:
            assert one.woken is not None
            one.woken.set()
