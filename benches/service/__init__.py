"""What the service costs beside the bare encoder and index on the same batches: rate, latency, CPU time.

    multifold bench service

A collection is made in a temporary folder, and a service of its own serves it in another process; the
clients are in a third one. Bare is the library: encode a batch of as many queries as there are clients, then
make of them the requests that the service makes of them, and search for all of them together.
The two take turns, so that they meet the same machine. Vectors of queries are not remembered.
"""

import argparse
from pathlib import Path

WORK = "benches.service.service"
TARGETS = ("item", "any", "text", "image", "shape")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--data", type=Path, help="folder that keeps the collection, to be used again")
    parser.add_argument("--items", type=int, default=2000, help="items of a few views and a caption")
    parser.add_argument("--views", type=int, default=6, help="of each item")
    parser.add_argument("--kinds", nargs="+", default=["text", "image"], choices=["text", "image"])
    parser.add_argument("--targets", nargs="+", default=["item", "shape"], choices=TARGETS)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5, help="of each of the two")
    parser.add_argument(
        "--hungry", type=int, metavar="N", help="instead: one client beside another with N connections"
    )
