"""The work of `multifold export`."""

import argparse
from pathlib import Path

from multifold.bundle.bundle import DESCRIPTION_FILE
from multifold.errors import MultifoldError, needs_extra

with needs_extra("train"):
    from training.export import openshape
    from training.export.measured_export import export_encoder, export_variant


def run(args: argparse.Namespace) -> int:
    from_openshape = args.source.startswith("openshape:")
    if from_openshape != (args.beside is not None):
        raise MultifoldError("--beside BUNDLE goes with openshape:FILE as the source, and that with --beside")
    if args.bundle is None:
        if args.beside is None:
            raise MultifoldError("name the folder to write the bundle into")
        args.bundle = args.beside.with_name(f"{args.beside.name}-points")
    if from_openshape:
        bundle = openshape.add_published_points(args.source, args.beside, args.bundle, args.force)
        print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
        print(openshape.TERMS)
        return 0
    is_bundle = (Path(args.source) / DESCRIPTION_FILE).is_file()
    if is_bundle != (args.variant is not None):
        raise MultifoldError("--variant goes with a bundle as its source, and a bundle with --variant")
    bundle = export_variant(args) if is_bundle else export_encoder(args)
    print(bundle.path("report.md").read_text(encoding="utf-8"))
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
    return 0
