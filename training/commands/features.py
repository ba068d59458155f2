"""Features of a manifest's items in bulk, as shards that `multifold index import` reads.

    multifold features things.jsonl bundles/things features/
    multifold features things.jsonl bundles/things features/ --cluster ray://head:10001 --workers 64

A stopped run continues where it was. A broken item is reported and left out.
--cluster needs Ray (extra `cluster`).
"""

import argparse
from functools import partial
from pathlib import Path

from multifold.machine import cores

ITEMS, SHOWN = 256, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path, help="folder of the shards")
    parser.add_argument("--items", type=int, default=ITEMS, help="a shard, default: %(default)s")
    parser.add_argument("--workers", type=int, default=cores(), help="processes, default: %(default)s")
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Ray cluster; local: one of this machine")


def run(args: argparse.Namespace) -> int:
    from training.data.extraction import extract

    if args.cluster is None:
        work = partial(extract.work_in_processes, args.bundle, workers=args.workers)
    else:
        from training.data.extraction.cluster import work_on_cluster

        work = partial(work_on_cluster, args.bundle, workers=args.workers, address=args.cluster)
    order = extract.ExtractionOrder(args.manifest, args.bundle, args.out, max(1, args.items))
    report = extract.extract_features(order, work)
    for name, problem in [*report.problems.items()][:SHOWN]:
        print(f"left out {name}: {problem}")
    if len(report.problems) > SHOWN:
        print(f"… and {len(report.problems) - SHOWN} more, all in {args.out / extract.PROBLEMS}")
    print(f"{report.rows:,} features in {args.out}\nnext: multifold index import {args.out} --data DATA")
    return 0
