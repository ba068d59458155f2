"""The work of `multifold bench gpu`."""

import argparse
from collections.abc import Callable, Iterator

from benches.gpu import encoder_on_gpu, index_on_gpu
from benches.reporting import print_parts

PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "index": index_on_gpu.measure,
    "encoder": encoder_on_gpu.measure,
}


def run(args: argparse.Namespace) -> int:
    print_parts(PARTS, args)
    return 0
