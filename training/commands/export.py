"""Turn a checkpoint, open weights, or a bundle's smaller variant into a bundle that checks itself.

    multifold export runs/demo/checkpoint.pt bundles/demo
    multifold export runs/next/checkpoint.pt bundles/next --against bundles/demo
    multifold export bundles/demo bundles/demo-int8 --variant int8
    multifold export open_clip:ViT-B-16/openai bundles/clip --held-out things.jsonl
    multifold export openshape:model.pt --beside bundles/clip-b32

It is measured on held-out items: those of its recipe, or the test split of another manifest (--held-out).
With --against both bundles are measured; a new one with lower recall is refused, unless with --force. So is
one that too few items tell of: --difference says how small a fall of recall they have to show.
--pool adds captions for traversals.
A point tower that was trained beside a bundle is added to a copy of it, if that finds no less than without.
openshape:FILE is a published point encoder. It is added to a copy of a bundle in the space of the same CLIP.
"""

import argparse
from pathlib import Path

from multifold.bundle.bundle import DESCRIPTION_FILE
from multifold.errors import MultifoldError, needs_extra

VARIANTS = ("fp16", "int8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", help="a checkpoint; open_clip:MODEL/TAG, …/FILE or :FOLDER; openshape:FILE; a bundle"
    )
    parser.add_argument("bundle", type=Path, nargs="?", help="folder to write the bundle into")
    parser.add_argument("--beside", type=Path, metavar="BUNDLE", help="what openshape:FILE is added to")
    parser.add_argument("--held-out", type=Path, metavar="MANIFEST", help="measure it on this test split")
    parser.add_argument("--against", type=Path, metavar="OLD", help="a bundle that must not be better")
    about = "of recall, that the held-out items must be able to show against OLD; default: %(default)s"
    parser.add_argument("--difference", type=float, default=0.1, metavar="D", help=about)
    parser.add_argument(
        "--force",
        action="store_true",
        help="write it even if OLD finds more, or if BUNDLE does not state its CLIP",
    )
    parser.add_argument("--variant", choices=VARIANTS, help="of a bundle: a smaller one")
    parser.add_argument("--tolerance", type=float, metavar="RECALL", help="what a variant may lose")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json of weights that read unlike CLIP")
    parser.add_argument("--pool", help="captions for traversals: 'furniture', 'everyday' or a file of lines")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="views and generated sets")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from training.export.measured_export import export_encoder, export_variant

    from_openshape = args.source.startswith("openshape:")
    if from_openshape != (args.beside is not None):
        raise MultifoldError("--beside BUNDLE goes with openshape:FILE as the source, and that with --beside")
    if args.bundle is None:
        if args.beside is None:
            raise MultifoldError("name the folder to write the bundle into")
        args.bundle = args.beside.with_name(f"{args.beside.name}-points")
    if from_openshape:
        with needs_extra("train"):
            from training.export import openshape

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
