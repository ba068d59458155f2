"""Put the items of a manifest into a collection, rendering meshes and encoding everything.

Items that are there already with the same content are left alone, so it can be run again at any time.
"""

import argparse
import os
import sys
from pathlib import Path

from app.intake import Intake, Report
from app.observer import encoder_of
from app.settings import read_settings
from index.collection import Collection
from multifold.errors import needs_extra
from multifold.machine import cores
from multifold.manifest import read
from renderers.sandbox import Sandbox

with needs_extra("serve"):
    from tqdm import tqdm

SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to take in, and where to."""
    parser.add_argument("manifest", type=Path, help="JSONL, one item a line")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the collection")
    parser.add_argument(
        "--bundle", type=Path, default=Path("bundles/furniture"), help="folder of the encoder"
    )
    parser.add_argument("--split", help="only the items of this split")
    parser.add_argument("--workers", type=int, default=cores(), help="processes that render")


def run(args: argparse.Namespace) -> int:
    """Take the manifest in and say what became of it."""
    settings = read_settings({"data": args.data, "bundle": args.bundle})
    entries = list(read(args.manifest, args.split))
    encoder = encoder_of(settings)
    print(
        f"ingesting {len(entries)} items of {args.manifest} into {settings.data} with {encoder.bundle.name}"
    )
    with (
        Collection.open(
            settings.data,
            encoder,
            writer=f"multifold ingest, process {os.getpid()}",
            probes=encoder.bundle.probes(),
        ) as collection,
        Sandbox(workers=args.workers, seconds=settings.render_seconds) as sandbox,
    ):
        intake = Intake(encoder, collection, sandbox, settings)
        for _ in tqdm(intake.take(entries), total=len(entries), unit="item", disable=None):
            pass
        print(f"the collection holds {collection.count()} items")
    return _tell(intake.report)


def _tell(report: Report) -> int:
    print(f"{report.written} written, {report.unchanged} unchanged, {len(report.skipped)} skipped")
    for name, reason in report.skipped[:SHOWN]:
        print(f"  {name}: {reason}", file=sys.stderr)
    if len(report.skipped) > SHOWN:
        print(f"  … and {len(report.skipped) - SHOWN} more", file=sys.stderr)
    return 1 if report.skipped and not report.written + report.unchanged else 0
