"""The processors and the memory that this process may use, and how work is spread over threads."""

import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
Result = TypeVar("Result")
LOW_PRIORITY = 10  # a tenth of the time of a thread that it competes with


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def openmp_threads() -> int:
    """How many threads may compute side by side: all cores, or fewer where OpenMP may use fewer."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(wanted)) if wanted.isdigit() and int(wanted) else cores()


def memory_limit(files: Iterable[str] = CGROUP_LIMITS) -> int:
    """How many bytes of memory this process may use: those of the machine, or fewer in a container."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in files:
        with suppress(OSError, ValueError):  # "max": no limit
            least = min(least, int(Path(name).read_text(encoding="ascii")))
    return least


def release_memory() -> None:
    """Give freed memory back to the system, where the allocator keeps it and can be told to (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def lower_thread_priority() -> None:
    """This thread gets the time that others leave, where the system tells threads apart and allows it."""
    set_thread_priority(LOW_PRIORITY)


def set_thread_priority(priority: int) -> None:
    """This thread has a priority of its own, 0 or lower: larger numbers. Not everyone may raise it again."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), priority)


def map_ahead(
    function: Callable[[Value], Result], values: Iterable[Value], threads: int, most: int
) -> Iterator[Result]:
    """Results in order, computed by threads; at most `most` of them wait to be taken."""
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for value in values:
            pending.append(pool.submit(function, value))
            if len(pending) >= most:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
