"""Features of a manifest's items in bulk, as shards that `multifold index import` reads.

    multifold features things.jsonl bundles/things features/
    multifold features things.jsonl bundles/things features/ --cluster ray://head:10001 --workers 64

Stopped, it goes on where it was. A broken item is told and left out. --cluster needs Ray (extra `cluster`).
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from multifold.machine import cores
from training.data.extraction import extract as workers
from training.data.extraction.extract import PROBLEMS, ExtractionOrder, extract_features
from training.data.extraction.parts import ManifestPart, PartFeatures

ITEMS, SHOWN = 256, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("manifest", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path, help="folder of the shards")
    parser.add_argument("--items", type=int, default=ITEMS, help="a shard, default: %(default)s")
    parser.add_argument("--workers", type=int, default=cores(), help="processes, default: %(default)s")
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Ray cluster; local: one of this machine")


def run(args: argparse.Namespace) -> int:
    """Work out the features, tell what was left out."""
    order = ExtractionOrder(args.manifest, args.bundle, args.out, max(1, args.items))
    done = extract_features(order, partial(_work, args))
    for name, problem in [*done.problems.items()][:SHOWN]:
        print(f"left out {name}: {problem}")
    if len(done.problems) > SHOWN:
        print(f"… and {len(done.problems) - SHOWN} more, all in {args.out / PROBLEMS}")
    print(f"{done.rows:,} features in {args.out}\nnext: multifold index import {args.out} --data DATA")
    return 0


def _work(args: argparse.Namespace, parts: Sequence[ManifestPart]) -> Iterator[PartFeatures]:
    if args.cluster is None:
        return workers.work_in_processes(args.bundle, parts, args.workers)
    from training.data.extraction import cluster

    return cluster.work_on_cluster(args.bundle, parts, args.workers, args.cluster)
