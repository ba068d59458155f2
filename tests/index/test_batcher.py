"""Batches: everyone gets the own answer, nobody waits for nothing, and an error reaches those it concerns."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from index.contracts import RowRankings
from index.engines.faiss_engine import BATCH, SearchBatcher
from tests.waiting import PATIENCE, until, wait_for


def echo(queries: np.ndarray, limit: int) -> RowRankings:
    """An answer from which its query can be told."""
    return np.repeat(queries[:, :1], limit, axis=1), np.repeat(queries[:, :1], limit, axis=1).astype(np.int64)


def one(number: int) -> np.ndarray:
    return np.array([[number]], np.float32)


def test_calls_that_wait_are_answered_together() -> None:
    started, go, sizes = threading.Event(), threading.Event(), []

    def slow(queries: np.ndarray, limit: int, threads: int) -> RowRankings:
        sizes.append((len(queries), limit, threads))
        started.set()
        wait_for(go, "all to wait")
        return echo(queries, limit)

    batcher = SearchBatcher(slow, lanes=1, cores=4)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(batcher.search, one(0), 3)
        wait_for(started, "the first search")
        others = [pool.submit(batcher.search, one(n), 3 if n < 6 else 2) for n in range(1, 8)]
        until(lambda: len(batcher._waiting) == 7)
        go.set()
        answers = [job.result() for job in (first, *others)]
    assert [int(ids[0, 0]) for _, ids in answers] == list(range(8))
    assert [ids.shape[1] for _, ids in answers] == [3] * 6 + [2] * 2
    assert sorted(sizes) == [(1, 3, 4), (2, 2, 4), (5, 3, 4)]


def test_free_lanes_search_side_by_side() -> None:
    together = threading.Barrier(2, timeout=PATIENCE)

    def meet(queries: np.ndarray, limit: int, threads: int) -> RowRankings:
        together.wait()  # would time out if one kept the other waiting
        return echo(queries, limit)

    batcher = SearchBatcher(meet, lanes=2, cores=2)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(batcher.search, one(n), 1) for n in range(2)]
        assert sorted(int(job.result()[1][0, 0]) for job in jobs) == [0, 1]


def test_many_queries_are_cut_into_batches() -> None:
    sizes: list[int] = []

    def run(queries: np.ndarray, limit: int, threads: int) -> RowRankings:
        sizes.append(len(queries))
        return echo(queries, limit)

    queries = np.arange(2 * BATCH + 5, dtype=np.float32)[:, None]
    assert (SearchBatcher(run, 1, 1).search(queries, 2)[1][:, 0] == queries[:, 0]).all()
    assert sizes == [BATCH, BATCH, 5]


def test_an_error_is_raised_and_the_next_call_goes_on() -> None:
    def picky(queries: np.ndarray, limit: int, threads: int) -> RowRankings:
        if limit == 13:
            raise ValueError("unlucky")
        return echo(queries, limit)

    batcher = SearchBatcher(picky, 1, 1)
    with pytest.raises(ValueError, match="unlucky"):
        batcher.search(one(1), 13)
    assert batcher.search(one(7), 1)[1].tolist() == [[7]]


def test_a_crowd_of_threads_gets_its_answers() -> None:
    batcher = SearchBatcher(lambda queries, limit, threads: echo(queries, limit), lanes=2, cores=2)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: int(batcher.search(one(n), 1)[1][0, 0]), range(500)))
    assert answers == list(range(500))
