"""Make a bundle from published ONNX encoders, without torch: CLIP and SigLIP families, many languages.

    multifold pull --list
    multifold pull siglip2-b16-small bundles/siglip2
    multifold pull OWNER/REPOSITORY bundles/mine --variant fp16 --revision COMMIT
    multifold pull clip-b32 bundles/clip --from downloads/clip-vit-base-patch32
    multifold pull potion-base-8M bundles/clip

A text reader, such as potion-base-8M, becomes a part of the bundle that is named, or a folder of its own.
NAME is one of the list, or a repository of the model hub in the layout of immich or of transformers.js.
What a broken line has brought stays, and the next run goes on from there.
"""

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from app.pull.catalogue import PublishedEncoder, find_published_encoder, format_catalogue
from app.pull.published_files import VARIANTS, PublishedFiles, PullError, Variant, open_published_folder
from app.pull.readers import (
    WANTED_FILES,
    PublishedReader,
    find_published_reader,
    format_readers,
    write_reader,
)

MOST_BYTES = 8 * 10**9
DOWNLOAD_SUFFIX = ".download"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="of the list, or OWNER/REPOSITORY")
    add("bundle", nargs="?", type=Path, help="its folder (default: bundles/NAME, or readers/NAME)")
    add("--list", action="store_true", help="the encoders and text readers that are known")
    add("--reader", action="store_true", help="OWNER/REPOSITORY is a text reader")
    add("--from", dest="folder", type=Path, metavar="FOLDER", help="files already here: no network")
    add("--variant", choices=VARIANTS, help="of the graphs (default: the list's, else fp32)")
    add("--revision", help="commit, tag or branch (default: the list's, else main)")
    add("--licence", help="of the weights, where the files do not state it")
    add("--rig", default="ring6", help="cameras that draw the views of meshes (default: ring6)")
    add("--hub", metavar="URL", help="address of another hub")
    add("--most", type=int, default=MOST_BYTES, metavar="BYTES", help="most that is downloaded")


def run(args: argparse.Namespace) -> int:
    if args.list:
        print(f"{format_catalogue()}\n\n{format_readers()}")
        return 0
    if args.name is None:
        raise PullError("say which encoder: one of `multifold pull --list`, or OWNER/REPOSITORY")
    reader = find_published_reader(args.name)
    if reader is not None or args.reader:
        return _pull_reader(args, reader or PublishedReader(args.name, args.name))
    listed = find_published_encoder(args.name)
    folder = args.bundle or Path("bundles") / args.name.split("/")[-1]
    if listed is None and args.folder is None and not REPOSITORY.fullmatch(args.name):
        raise PullError(f"{args.name!r} is not in `multifold pull --list`, and no OWNER/REPOSITORY either")
    entry = listed or PublishedEncoder(args.name, args.name)
    variant: Variant = args.variant or entry.variant
    downloads = folder.with_name(folder.name + DOWNLOAD_SUFFIX)
    source = _fetch_source(args, entry, variant, downloads)
    print("wrapping the towers and comparing the bundle's answers with theirs …", flush=True)
    from app.pull.build import BundleRequest, build_bundle

    about = f"Published towers {args.name} ({variant})." if listed is None else entry.about
    request = BundleRequest(args.name.split("/")[-1], about, variant, args.rig)
    bundle = build_bundle(source, folder, request)
    shutil.rmtree(downloads, ignore_errors=True)
    licence, image, text = bundle.provenance["licence"], bundle.image, bundle.text
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {folder}")
    size = f"{image.size} x {image.size}"
    print(f"  {bundle.variant}, {bundle.geometry.dim} numbers a vector; pictures of {size}")
    print(f"  texts of up to {text.context} tokens, cleaned as {text.cleaning}, length {text.length}")
    print(f"  licence: {licence}" + (" (see what the publisher says)" if licence == "unknown" else ""))
    print(f"serve it: make serve BUNDLE={folder}")
    return 0


def _pull_reader(args: argparse.Namespace, entry: PublishedReader) -> int:
    folder = args.bundle or Path("readers") / args.name.split("/")[-1]
    downloads = folder.with_name(f"{folder.name}-reader{DOWNLOAD_SUFFIX}")
    source = _fetch_source(args, entry, "fp32", downloads, WANTED_FILES)
    reader = write_reader(source, folder)
    shutil.rmtree(downloads, ignore_errors=True)
    print(f"text reader {reader.id}, {reader.dim} numbers a text, in {folder}")
    print(f"  licence: {source.licence or 'unknown (see what the publisher says)'}")
    if args.bundle is None:
        print(f"part of a bundle: multifold reader --from {folder} --bundle bundles/furniture")
    return 0


def _fetch_source(
    args: argparse.Namespace,
    entry: PublishedEncoder | PublishedReader,
    variant: Variant,
    downloads: Path,
    wanted: Sequence[str] = (),
) -> PublishedFiles:
    pins = entry.sha256 if args.revision in (None, entry.revision) else {}  # the list knows no other files
    licence = args.licence or entry.licence or None
    if args.folder is not None:
        return open_published_folder(args.folder, licence, pins)
    from app.pull import hub

    revision = args.revision or entry.revision or "main"
    print(f"fetching {entry.repository} at {revision}", flush=True)
    request = hub.HubRequest(entry.repository, revision, variant, licence, args.most)
    return hub.fetch_from_hub(request, downloads, pins, args.hub or hub.HUB_ADDRESS, wanted)
