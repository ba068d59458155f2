"""Render meshes into pictures from several sides, or sample points of their surfaces.

    multifold render chairs/ table.glb --out views --rig ring6 --size 224 --sheet
    multifold render scans/ --out views --up-of '*.ply=z' --background transparent
    multifold render chairs/ --out clouds --points 2048 --format ply
    multifold render --doctor

Folders are searched for meshes. Each mesh gets a folder of pictures under --out. What is already there, from
the same content with the same settings, is not drawn again. --doctor tells which engines work here. --points
writes a file for each mesh instead: positions in the unit ball, normals and sRGB colours, spread by area.
"""

import argparse
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from multifold.cli import at_least_one
from multifold.errors import MultifoldError
from multifold.machine import cores
from renderers import batch, cameras, doctor, engines
from renderers.batch import RECORD_FILE, RenderOutcome, RenderRecord, RenderSettings
from renderers.contact_sheets import contact_sheets, page_count
from renderers.contracts import Background, Up, check_view_size
from renderers.point_files import PointFormat
from renderers.points import check_point_count

PICTURES = ("webp", "png")
_MOST_LINES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="mesh files, or folders of them")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go")
    parser.add_argument(
        "--rig", default="ring6", help=f"cameras: {', '.join(cameras.NAMES)}; {cameras.FAMILIES}"
    )
    parser.add_argument("--size", type=int, default=224, help="pixels on a side (default 224)")
    parser.add_argument("--background", choices=get_args(Background), default="white")
    parser.add_argument("--up", choices=get_args(Up), default="auto", help="which axis points up")
    parser.add_argument(
        "--up-of",
        action="append",
        type=_up_of,
        default=[],
        metavar="PATTERN=AXIS",
        help="the same for some meshes by name, as in 'scans/*.ply=z'; may be given several times",
    )
    parser.add_argument("--points", type=int, default=0, metavar="N", help="write points, no pictures")
    parser.add_argument("--seed", type=int, default=0, help="of the points (default 0)")
    parser.add_argument(
        "--format", choices=(*PICTURES, *get_args(PointFormat)), help="default: webp; npz with --points"
    )
    parser.add_argument("--sheet", action="store_true", help="also write contact sheets")
    parser.add_argument(
        "--engine", type=_engine, choices=engines.NAMES, default=engines.AUTO, help="what draws"
    )
    parser.add_argument(
        "--workers", type=at_least_one, default=cores(), help="processes (default: one for each core)"
    )
    parser.add_argument("--doctor", action="store_true", help="only tell which engines work here")


def run(args: argparse.Namespace) -> int:
    if args.doctor:
        works = []
        for check in doctor.check_engines():
            print(check, flush=True)
            works.append(check.works)
        return 0 if any(works) else 1
    if not args.paths or args.out is None:
        raise MultifoldError("say what to render and where to: multifold render PATH… --out DIR")
    args.format = args.format or ("npz" if args.points else "webp")
    _check_kind(args)
    names = (field.name for field in fields(RenderSettings))
    settings = RenderSettings(**{name: getattr(args, name) for name in names})
    meshes = batch.find_meshes(args.paths)
    views = len(cameras.rig(settings.rig))
    each = f"{views} views each ({settings.rig}) at {settings.size} pixels"
    each = f"{settings.points} points each" if settings.points else each
    print(f"{len(meshes)} meshes, {each} -> {settings.out}")
    settings.out.mkdir(parents=True, exist_ok=True)
    record = RenderRecord.read(settings.out)
    outcome = batch.render_meshes(settings, meshes, record)
    if args.sheet and outcome.done:
        _write_sheets(settings, outcome, record)
    _report(outcome, record, "sampled" if args.points else "rendered")
    return 0 if outcome.done else 1


def _check_kind(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if args.points == 0:
        check_view_size(args.size)
        if args.format not in PICTURES:
            raise MultifoldError(f"--format {args.format} is for points: add --points 2048")
        return
    check_point_count(args.points)
    if args.format in PICTURES or args.sheet:
        raise MultifoldError("points are no pictures: --points goes with --format npz or ply, and no --sheet")


def _write_sheets(settings: RenderSettings, outcome: RenderOutcome, record: RenderRecord) -> None:
    """Write the pages if a picture is new or a page is missing."""
    pages = [
        settings.out / f"sheet_{page:03}.{settings.format}"
        for page in range(page_count(record, outcome.done))
    ]
    if outcome.rendered or not all(page.is_file() for page in pages):
        sheets = tqdm(contact_sheets(record, outcome.done), "sheets", len(pages), delay=2)
        for path, page in zip(pages, sheets, strict=True):
            page.save(path, quality=90)


def _report(outcome: RenderOutcome, record: RenderRecord, done: str) -> None:
    """Print how many were rendered or sampled, which axis is up, and what was skipped."""
    print(f"{outcome.rendered} {done}, {len(outcome.done)} in all")
    entries = {name: record.entries[name] for name in outcome.done}
    for (up, reason), count in Counter((one.up, one.up_reason) for one in entries.values()).most_common():
        print(f"up is {up} in {count}: {reason}")
    messages = [f"note on {name}: {note}" for name, one in entries.items() for note in one.notes]
    messages += [f"skipped {name}: {reason}" for name, reason in outcome.skipped.items()]
    print(*messages[-_MOST_LINES:], sep="\n", end="\n" if messages else "")
    if len(messages) > _MOST_LINES:
        print(f"and {len(messages) - _MOST_LINES} more, in {RECORD_FILE}")


def _engine(name: str) -> str:
    """The name of an engine; of one that is another's, a line says so."""
    if name in engines.NAMES or name not in engines.ALIASES:
        return name
    chosen = engines.ALIASES[name]
    print(f"--engine {name} means {chosen}; the next version will not know it", file=sys.stderr)
    return chosen


def _up_of(text: str) -> tuple[str, Up]:
    """PATTERN=AXIS in two."""
    pattern, _, axis = text.rpartition("=")
    for up in get_args(Up):
        if pattern and axis == up:
            return pattern, up
    raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=y, PATTERN=z or PATTERN=auto")
