"""How benchmarks time calls and print Markdown tables."""

import time
from collections.abc import Callable

import numpy as np

WARM, FEWEST, MOST = 3, 3, 400  # calls of `steady_seconds`
SECONDS = 2.0  # for all its calls together, if they are not the fewest


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*columns: str) -> str:
    """The head of a Markdown table."""
    return f"{row(*columns)}\n|{'---|' * len(columns)}"


def time_calls(
    call: Callable[[int], object],
    count: int,
    before: Callable[[int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds of each of so many calls, with their number; `before` each of them is not counted."""
    seconds = []
    for turn in range(count):
        if before is not None:
            before(turn)
        start = clock()
        call(turn)
        seconds.append(clock() - start)
    return seconds


def steady_seconds(call: Callable[[int], object]) -> float:
    """The median time of many calls with their number, after the first ones."""
    count = int(np.clip(SECONDS / min(time_calls(call, WARM)), FEWEST, MOST))
    return float(np.median(time_calls(call, count)))
