"""What the machine offers, and how work is spread over it."""

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multifold import machine
from multifold.machine import LOW_PRIORITY, cores, lower_thread_priority, map_ahead, memory_limit


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own there")
def test_a_thread_that_stands_back_leaves_the_others_as_they_were() -> None:
    def own() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = own()
    with ThreadPoolExecutor(1, initializer=lower_thread_priority) as pool:
        assert pool.submit(own).result() == LOW_PRIORITY
    assert own() == before


def test_threads_stay_at_most_so_far_ahead() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    for place, number in enumerate(map_ahead(lambda one: one, numbers(), threads=2, most=8)):
        assert number == place
        assert len(taken) <= place + 8
    assert len(taken) == 100


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # systems without affinity count all processors
    for counted, expected in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda counted=counted: counted)
        assert cores() == expected


def test_the_memory_of_a_container_counts(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("max", "none", "limit")]
    (tmp_path / "max").write_text("max\n")
    assert memory_limit(files) == memory_limit([])
    (tmp_path / "limit").write_text("1048576\n")
    assert memory_limit(files) == 1 << 20


def test_no_more_threads_search_than_openmp_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.openmp_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert machine.openmp_threads() == 4
