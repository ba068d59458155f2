"""`multifold index stats` and `verify`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from index.commands.common import format_size, open_collection, read_store
from index.engines.segments import SegmentReport
from index.maintenance.stats import collect_stats
from index.maintenance.verify import find_store_problems
from index.store.browse import describe_observations
from index.store.folder_locks import writer_of
from index.store.store import open_blobs

MOST_LINES = 50


def print_stats(args: argparse.Namespace) -> int:
    """Tell what a collection holds, takes, and finds."""
    stats = collect_stats(args.place)
    writer = None if args.place.database else writer_of(args.place.folder)
    if args.json:
        reports = {name: [one.as_json() for one in some] for name, some in stats.reports.items()}
        print(json.dumps({**asdict(stats), "reports": reports, "writer": writer}))
        return 0
    kinds = describe_observations(stats.observations)
    print(f"encoder  {stats.vector_id}\nversion  {stats.version}, the last {stats.log} changes in the log")
    print(f"items    {stats.items}" + (f" ({kinds})" if kinds else ""))
    print("bytes    " + ", ".join(f"{name} {format_size(count)}" for name, count in stats.bytes.items()))
    print(f"writer   {writer or ('any service' if args.place.database else 'nobody')}")
    print(f"index    {stats.plan}")
    print_reports(stats.reports)
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
    print(f"checking {args.place.shown}", flush=True)
    count = 0
    for count, problem in enumerate(_problems(args), 1):
        if count <= MOST_LINES:
            print(f"  {problem}", flush=True)
    if count > MOST_LINES:
        print(f"  … and {count - MOST_LINES} more")
    print("all is well" if not count else f"{count} things are wrong")
    return 1 if count else 0


def _problems(args: argparse.Namespace) -> Iterator[str]:
    with read_store(args.place) as store:
        store.check_pictures(args.place.folder, args.place.bucket, writes=False)
        yield from find_store_problems(open_blobs(args.place.folder, args.place.bucket), store)
    if not args.no_index:
        with open_collection(args, read_only=True) as collection:
            collection.engines.settle()
            yield from collection.disagreements()
