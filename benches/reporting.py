"""How benchmarks time calls and print Markdown tables."""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping

import numpy as np

WARM, FEWEST, MOST = 3, 3, 400  # calls of `steady_seconds`
SECONDS = 2.0  # for all its calls together, if they are not the fewest


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*columns: str) -> str:
    """The head of a Markdown table."""
    return f"{row(*columns)}\n|{'---|' * len(columns)}"


def time_calls(call: Callable[[int], object], count: int) -> list[float]:
    """Seconds of each of so many calls, with their number."""
    seconds = []
    for turn in range(count):
        start = time.perf_counter()
        call(turn)
        seconds.append(time.perf_counter() - start)
    return seconds


def print_parts(parts: Mapping[str, Callable[[Namespace], Iterator[str]]], options: Namespace) -> None:
    """The lines of each part that the options name, as they come."""
    for name in options.parts:
        print(f"\n## {name}\n")
        for line in parts[name](options):
            print(line, flush=True)


def steady_seconds(call: Callable[[int], object]) -> float:
    """The median time of many calls with their number, after the first ones."""
    count = int(np.clip(SECONDS / min(time_calls(call, WARM)), FEWEST, MOST))
    return float(np.median(time_calls(call, count)))
