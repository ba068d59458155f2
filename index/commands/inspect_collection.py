"""`multifold index stats` and `verify`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from index.cluster.contracts import cluster_from_environment
from index.collection import Collection
from index.commands.common import add_bucket, add_bundle, format_size, space_of, store_of, vector_id_of
from index.engines.segments import SegmentReport
from index.maintenance import stats as figures
from index.maintenance import verify as checks
from index.store.folder_locks import writer_of
from index.store.store import Store, open_blobs

MOST_LINES = 50


def stats(args: argparse.Namespace) -> int:
    """Tell what a collection holds, takes, and finds."""
    store_of(args.data)
    told = figures.collect_stats(args.data)
    if args.json:
        reports = {name: [one.as_json() for one in some] for name, some in told.reports.items()}
        print(json.dumps({**asdict(told), "reports": reports, "writer": writer_of(args.data)}))
        return 0
    seen = ", ".join(f"{count} {kind}s" for kind, count in told.observations.items() if count)
    print(f"encoder  {told.vector_id}\nversion  {told.version}, the last {told.log} changes in the log")
    print(f"items    {told.items}" + (f" ({seen})" if seen else ""))
    print("bytes    " + ", ".join(f"{name} {format_size(count)}" for name, count in told.bytes.items()))
    print(f"writer   {writer_of(args.data) or 'nobody'}")
    print(f"index    {told.plan}")
    print_reports(told.reports)
    return 0


def print_reports(reports: Mapping[str, list[SegmentReport]]) -> None:
    """What every sealed part is, finds, takes and costs."""
    for name, some in reports.items():
        for one in some:
            print(f"  {name}: {one}")
        if not some:
            print(f"  {name}: exact, nothing is sealed")


def verify(args: argparse.Namespace) -> int:
    """Check store, pictures and indexes; 1 if anything is wrong."""
    print(f"checking {args.data}", flush=True)
    found = 0
    for found, trouble in enumerate(_troubles(args), 1):
        if found <= MOST_LINES:
            print(f"  {trouble}", flush=True)
    if found > MOST_LINES:
        print(f"  … and {found - MOST_LINES} more")
    print("all is well" if not found else f"{found} things are wrong")
    return 1 if found else 0


def _troubles(args: argparse.Namespace) -> Iterator[str]:
    store = Store(store_of(args.data), None, read_only=True)
    try:
        yield from checks.find_store_problems(open_blobs(args.data, args.bucket), store)
    finally:
        store.close()
    if not args.no_index:
        yield from _disagreements(args.data, args.bundle)


def _disagreements(data: Path, bundle: Path) -> Iterator[str]:
    space, probes = space_of(vector_id_of(data), bundle)
    with Collection.open(
        data, space, read_only=True, probes=probes, cluster=cluster_from_environment()
    ) as collection:
        collection.settle()
        yield from collection.disagreements()


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    add_bucket(parser)
    parser.add_argument("--no-index", action="store_true", help="only store and pictures: needs no encoder")


ACTIONS = {"stats": (stats, _stats_arguments), "verify": (verify, _verify_arguments)}
