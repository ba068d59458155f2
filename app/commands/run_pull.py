"""The work of `multifold pull`."""

import argparse
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from app.pull.build import BundleRequest, build_bundle
from app.pull.catalogue import (
    PublishedEncoder,
    PublishedModel,
    PublishedPoints,
    PublishedReader,
    candidates,
    find_published,
    flores_code,
)
from app.pull.choice import compare_candidates, read_captioned
from app.pull.hub import HubRequest, fetch_from_hub
from app.pull.published_files import PublishedFiles, PullError, Variant, open_published_folder
from app.pull.readers import WANTED_FILES, write_reader
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder

DOWNLOAD_SUFFIX = ".download"
DESCRIPTION_FILE = "bundle.json"
WEIGHTS_FILE = "model.pt"  # of a point encoder
ORIGIN_FILE = "origin.json"  # beside weights: where they come from
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def run(args: argparse.Namespace) -> int:
    _check_request(args)
    if args.own is not None:
        return _compare(args)
    match find_published(args.name):
        case PublishedReader() as reader:
            _pull_reader(args, reader)
        case PublishedPoints() as points:
            _pull_points(args, points)
        case None if args.reader:
            _pull_reader(args, PublishedReader(args.name, args.name))
        case _:
            folder = args.bundle or _default_folder(args.name, args.language)
            _pull_encoder(args, args.name, folder)
            print(f"serve it: make serve BUNDLE={folder}")
    return 0


def _check_request(args: argparse.Namespace) -> None:
    """Refuse options that say nothing, or contradict one another."""
    if args.language is not None:
        flores_code(args.language)  # refuses a language that it does not know
    if args.own is not None and args.name is not None:
        raise PullError("say NAME, or --for FOLDER with --candidates; not both")
    if args.own is None and args.name is None:
        raise PullError("say which encoder: one of `multifold pull --list`, or OWNER/REPOSITORY")
    _numbers(args.prefixes)


def _compare(args: argparse.Namespace) -> int:
    """Pull the candidates, each into a bundle of its name, and say which is best on the user's own things."""
    names = [one.name for one in candidates(args.language or "en")]
    if args.candidates is not None:
        names = [name.strip() for name in args.candidates.split(",") if name.strip()]
    if not names:
        raise PullError("--candidates names no encoder")
    things = read_captioned(args.own)
    published = args.folder

    def open_one(name: str) -> Encoder:
        folder = _default_folder(name, args.language)
        if not (folder / DESCRIPTION_FILE).is_file():
            if published is not None:
                args.folder = published / name.split("/")[-1]
            _pull_encoder(args, name, folder)
        return open_encoder(folder)

    choice = compare_candidates(names, things, open_one)
    print("\n".join(choice.lines))
    print(f"serve it: make serve BUNDLE={_default_folder(choice.best, args.language)}")
    return 0


def _default_folder(name: str, language: str | None) -> Path:
    """bundles/NAME; NLLB towers make a bundle for each language."""
    plain = name.split("/")[-1]
    return Path("bundles") / (f"{plain}-{language}" if language and "nllb" in plain else plain)


def _pull_encoder(args: argparse.Namespace, name: str, folder: Path) -> None:
    found = find_published(name)
    listed = found if isinstance(found, PublishedEncoder) else None
    if listed is None and args.folder is None and not REPOSITORY.fullmatch(name):
        raise PullError(f"{name!r} is not in `multifold pull --list`, and no OWNER/REPOSITORY either")
    entry = listed or PublishedEncoder(name, name)
    variant: Variant = args.variant or entry.variant
    downloads = folder.with_name(folder.name + DOWNLOAD_SUFFIX)
    former = _pulled_commit(folder / DESCRIPTION_FILE, entry.repository)
    source = _fetch_source(args, entry, variant, downloads, former=former)
    print("wrapping the towers and comparing the bundle's answers with theirs …", flush=True)
    about = f"Published towers {name} ({variant})." if listed is None else entry.about
    prefixes = _numbers(args.prefixes)
    request = BundleRequest(name.split("/")[-1], about, variant, args.rig, args.language, prefixes)
    bundle = build_bundle(source, folder, request)
    shutil.rmtree(downloads, ignore_errors=True)
    licence = bundle.provenance["licence"]
    text = bundle.text
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {folder}")
    size = bundle.image.size
    print(f"  {bundle.variant}, {bundle.geometry.dim} numbers a vector; pictures of {size} x {size}")
    print(f"  texts of up to {text.context} tokens, cleaned as {text.cleaning}, length {text.length}")
    print(f"  licence: {licence}" + (" (see what the publisher says)" if licence == "unknown" else ""))


def _numbers(raw: str | None) -> tuple[int, ...]:
    try:
        return tuple(sorted(int(one) for one in raw.split(","))) if raw else ()
    except ValueError:
        raise PullError(f"--prefixes takes numbers such as 64,128, not {raw!r}") from None


def _pull_reader(args: argparse.Namespace, entry: PublishedReader) -> None:
    folder = args.bundle or Path("readers") / args.name.split("/")[-1]
    downloads = folder.with_name(f"{folder.name}-reader{DOWNLOAD_SUFFIX}")
    source = _fetch_source(args, entry, "fp32", downloads, WANTED_FILES)
    reader = write_reader(source, folder)
    shutil.rmtree(downloads, ignore_errors=True)
    print(f"text reader {reader.id}, {reader.dim} numbers a text, in {folder}")
    print(f"  licence: {source.licence or 'unknown (see what the publisher says)'}")
    if args.bundle is None:
        print(f"part of a bundle: multifold train-reader --from {folder} --bundle bundles/furniture")


def _pull_points(args: argparse.Namespace, entry: PublishedPoints) -> None:
    """Fetch the weights of a point encoder; `multifold export`, which has torch, adds them to a bundle."""
    folder = args.bundle or Path("weights") / entry.name
    origin = folder / ORIGIN_FILE
    former = _pulled_commit(origin, entry.repository)
    source = _fetch_source(args, entry, "fp32", folder, (WEIGHTS_FILE,), former)
    weights = source.path(WEIGHTS_FILE)
    if args.folder is None:
        origin.write_text(json.dumps(dict(source.origin), indent=2) + "\n", encoding="utf-8")
    print(f"point encoder {entry.name}, in the space of OpenAI's CLIP {entry.clip}, in {weights}")
    print(f"  licence: {source.licence}; it learned in part from ShapeNet")
    print(f"part of a bundle: multifold export openshape:{weights} --beside BUNDLE")


def _pulled_commit(description: Path, repository: str) -> str | None:
    """The commit of a repository that a bundle, or weights, were pulled from before."""
    try:
        described = json.loads(description.read_text(encoding="utf-8"))
        origin = described.get("provenance", {}).get("source", described)
        return str(origin["revision"]) if origin["repository"] == repository else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None


def _fetch_source(
    args: argparse.Namespace,
    entry: PublishedModel,
    variant: Variant,
    downloads: Path,
    wanted: Sequence[str] = (),
    former: str | None = None,
) -> PublishedFiles:
    """The files from a folder or the hub. Without a revision, only those of a former commit are taken."""
    pins = entry.sha256 if args.revision in (None, entry.revision) else {}  # the list knows no other files
    licence = args.licence or entry.licence or None
    if args.folder is not None:
        return open_published_folder(args.folder, licence, pins)
    revision = args.revision or entry.revision or "main"
    print(f"fetching {entry.repository} at {revision}", flush=True)
    pinned = args.revision is not None or entry.revision is not None
    request = HubRequest(entry.repository, revision, variant, licence, args.most, None if pinned else former)
    return fetch_from_hub(request, downloads, pins, args.hub, wanted)
