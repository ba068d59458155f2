"""The work of `multifold encode`."""

import argparse
from functools import partial

from training.data.extraction import extract

SHOWN_PROBLEMS = 5  # problems


def run(args: argparse.Namespace) -> int:
    work = partial(extract.work_in_processes, args.bundle, workers=args.workers)
    order = extract.ExtractionOrder(args.manifest, args.bundle, args.out, max(1, args.items))
    report = extract.extract_features(order, work)
    for name, problem in [*report.problems.items()][:SHOWN_PROBLEMS]:
        print(f"left out {name}: {problem}")
    if len(report.problems) > SHOWN_PROBLEMS:
        print(f"… and {len(report.problems) - SHOWN_PROBLEMS} more, all in {args.out / extract.PROBLEMS}")
    print(f"{report.rows:,} features in {args.out}\nnext: multifold index import {args.out} --data DATA")
    return 0
