"""The work of `multifold train-on-feedback`."""

import argparse
from pathlib import Path

from multifold.bundle.bundle import DESCRIPTION_FILE
from multifold.errors import MultifoldError, needs_extra

with needs_extra("train"):
    from training.export.improved_bundle import improve_bundle, rebuild_collection

REFUSED = 1


def run(args: argparse.Namespace) -> int:
    if (args.to / DESCRIPTION_FILE).exists():
        raise MultifoldError(f"{args.to} already holds a bundle: name a new folder")
    if not 0 < args.mix <= 1:
        raise MultifoldError(
            f"--new-share is a share of the new weights above 0, up to 1, and not {args.mix:g}"
        )
    out = args.out or Path("runs") / f"improve-{args.collection}"
    out.mkdir(parents=True, exist_ok=True)
    bundle = improve_bundle(args, out)
    if bundle is None:
        print(f"nothing was changed; the report is in {out / 'report.md'}")
        return REFUSED
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.to}")
    if args.service:
        return 0 if rebuild_collection(args, bundle) else REFUSED
    print(f"next: multifold train-on-feedback … --service URL, or serve it by `make serve BUNDLE={args.to}`")
    return 0
