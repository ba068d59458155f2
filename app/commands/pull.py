"""Make a bundle from published ONNX encoders, without torch: CLIP and SigLIP families, many languages.

    multifold pull --list
    multifold pull siglip2-b16-small bundles/siglip2
    multifold pull OWNER/REPOSITORY bundles/mine --variant fp16 --revision COMMIT
    multifold pull clip-b32 bundles/clip --from downloads/clip-vit-base-patch32

NAME is one of the list, or a repository of the model hub in the layout of immich or of transformers.js.
What a broken line has brought stays, and the next run goes on from there.
"""

import argparse
import re
import shutil
from pathlib import Path

from app.pull.catalogue import PublishedEncoder, find_published_encoder, format_catalogue
from app.pull.published_files import VARIANTS, PublishedFiles, PullError, Variant, open_published_folder
from multifold.bundle.bundle import Bundle

MOST_BYTES = 8 * 10**9
DOWNLOAD_SUFFIX = ".download"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which encoder, and where to."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the list, or OWNER/REPOSITORY")
    parser.add_argument("bundle", nargs="?", type=Path, help="folder of the bundle (default: bundles/NAME)")
    parser.add_argument("--list", action="store_true", help="the encoders that are known")
    parser.add_argument(
        "--from", dest="folder", type=Path, metavar="FOLDER", help="files already here: no network"
    )
    parser.add_argument("--variant", choices=VARIANTS, help="of the graphs (default: the list's, else fp32)")
    parser.add_argument("--revision", help="commit, tag or branch (default: the list's, else main)")
    parser.add_argument("--licence", help="of the weights, where the files do not state it")
    parser.add_argument(
        "--rig", default="ring6", help="cameras that draw the views of meshes (default: ring6)"
    )
    parser.add_argument("--hub", metavar="URL", help="address of another hub")
    parser.add_argument(
        "--most", type=int, default=MOST_BYTES, metavar="BYTES", help="most that is downloaded"
    )


def run(args: argparse.Namespace) -> int:
    """Fetch, wrap, check, write; say what it is and how to serve it."""
    if args.list:
        print(format_catalogue())
        return 0
    if args.name is None:
        raise PullError("say which encoder: one of `multifold pull --list`, or OWNER/REPOSITORY")
    entry = find_published_encoder(args.name)
    folder = args.bundle or Path("bundles") / args.name.split("/")[-1]
    if entry is None and args.folder is None and not REPOSITORY.fullmatch(args.name):
        raise PullError(f"{args.name!r} is not in `multifold pull --list`, and no OWNER/REPOSITORY either")
    variant: Variant = args.variant or ("fp32" if entry is None else entry.variant)
    downloads = folder.with_name(folder.name + DOWNLOAD_SUFFIX)
    source = _fetch_source(args, entry, variant, downloads)
    print("wrapping the towers and comparing the bundle's answers with theirs …", flush=True)
    from app.pull.build import BundleRequest, build_bundle

    about = f"Published towers {args.name} ({variant})." if entry is None else entry.about
    request = BundleRequest(args.name.split("/")[-1], about, variant, args.rig)
    bundle = build_bundle(source, folder, request)
    shutil.rmtree(downloads, ignore_errors=True)
    _print_bundle(bundle, folder)
    return 0


def _fetch_source(
    args: argparse.Namespace, entry: PublishedEncoder | None, variant: Variant, downloads: Path
) -> PublishedFiles:
    listed = entry is not None and args.revision in (None, entry.revision)  # the list knows no other files
    pins = entry.sha256 if entry is not None and listed else {}
    licence = args.licence or (None if entry is None else entry.licence)
    if args.folder is not None:
        return open_published_folder(args.folder, licence, pins)
    from app.pull import hub

    repository = args.name if entry is None else entry.repository
    revision = args.revision or (None if entry is None else entry.revision) or "main"
    print(f"fetching {repository} at {revision}", flush=True)
    request = hub.HubRequest(repository, revision, variant, licence, args.most)
    return hub.fetch_from_hub(request, downloads, pins, args.hub or hub.HUB_ADDRESS)


def _print_bundle(bundle: Bundle, folder: Path) -> None:
    licence, image, text = bundle.provenance["licence"], bundle.image, bundle.text
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {folder}")
    size = f"{image.size} x {image.size}"
    print(f"  {bundle.variant}, {bundle.geometry.dim} numbers a vector; pictures of {size}")
    print(f"  texts of up to {text.context} tokens, cleaned as {text.cleaning}, length {text.length}")
    print(f"  licence: {licence}" + (" (see what the publisher says)" if licence == "unknown" else ""))
    print(f"serve it: make serve BUNDLE={folder}")
