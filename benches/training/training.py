"""The work of `multifold bench training`."""

import argparse
from collections.abc import Callable, Iterator

from benches.reporting import print_parts
from multifold.errors import needs_extra

with needs_extra("train"):
    from benches.training import loss_times, step_times

PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "loop": step_times.compare_loops,
    "losses": loss_times.measure_losses,
    "steps": step_times.measure_devices,
}


def run(args: argparse.Namespace) -> int:
    print_parts(PARTS, args)
    return 0
