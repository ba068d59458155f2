"""Render meshes into pictures from several sides.

    multifold render chairs/ table.glb --out views --rig ring6 --size 224 --sheet
    multifold render scans/ --out views --up-of '*.ply=z' --background transparent
    multifold render --doctor

Folders are searched for meshes. Each mesh gets a folder of pictures under --out. What is already there, from
the same content with the same settings, is not drawn again. --doctor tells which engines work here.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from multifold.errors import MultifoldError
from multifold.machine import cores
from renderers import batch, cameras, doctor, engines
from renderers.batch import RECORD_FILE, RenderRecord
from renderers.contact_sheets import contact_sheets, page_count
from renderers.contracts import Background, Up, check_view_size

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
    parser.add_argument("--format", choices=("webp", "png"), default="webp")
    parser.add_argument("--sheet", action="store_true", help="also write contact sheets")
    parser.add_argument("--engine", choices=engines.NAMES, default=engines.AUTO, help="what draws")
    parser.add_argument("--workers", type=int, default=cores(), help="processes (default: one for each core)")
    parser.add_argument("--doctor", action="store_true", help="only tell which engines work here")


def run(args: argparse.Namespace) -> int:
    if args.doctor:
        return _examine()
    if not args.paths or args.out is None:
        raise MultifoldError("say what to render and where to: multifold render PATH… --out DIR")
    check_view_size(args.size)
    order = _order(args)
    meshes = batch.find_meshes(args.paths)
    views = len(cameras.rig(order.rig))
    print(f"{len(meshes)} meshes, {views} views each ({order.rig}) at {order.size} pixels -> {order.out}")
    order.out.mkdir(parents=True, exist_ok=True)
    record = RenderRecord.read(order.out)
    outcome = batch.render_meshes(order, meshes, record)
    if args.sheet and outcome.done:
        _write_sheets(order, outcome, record)
    _tell(outcome, record)
    return 0 if outcome.done else 1


def _order(args: argparse.Namespace) -> batch.RenderSettings:
    return batch.RenderSettings(
        out=args.out,
        rig=args.rig,
        size=args.size,
        background=args.background,
        up=args.up,
        up_of=tuple(args.up_of),
        format=args.format,
        engine=args.engine,
        workers=args.workers,
    )


def _examine() -> int:
    works = False
    for finding in doctor.check_engines():
        print(finding, flush=True)
        works = works or finding.works
    return 0 if works else 1


def _write_sheets(order: batch.RenderSettings, outcome: batch.RenderOutcome, record: RenderRecord) -> None:
    """Anew if a picture is new, or the pages are not there."""
    pages = [
        order.out / f"sheet_{page:03}.{order.format}" for page in range(page_count(record, outcome.done))
    ]
    if outcome.rendered or not all(page.is_file() for page in pages):
        drawn = tqdm(contact_sheets(record, outcome.done), "sheets", len(pages), delay=2)
        for path, page in zip(pages, drawn, strict=True):
            page.save(path, quality=90)


def _tell(outcome: batch.RenderOutcome, record: RenderRecord) -> None:
    """How it went, which axes were taken for up, and what was odd."""
    print(f"{outcome.rendered} rendered, {len(outcome.done)} in all")
    drawn = {name: record.drawn[name] for name in outcome.done}
    for (up, reason), count in Counter((one.up, one.up_reason) for one in drawn.values()).most_common():
        print(f"up is {up} in {count}: {reason}")
    odd = [f"note on {name}: {note}" for name, one in drawn.items() for note in one.notes]
    odd += [f"skipped {name}: {reason}" for name, reason in outcome.skipped.items()]
    print(*odd[-_MOST_LINES:], sep="\n", end="\n" if odd else "")
    if len(odd) > _MOST_LINES:
        print(f"and {len(odd) - _MOST_LINES} more, in {RECORD_FILE}")


def _up_of(text: str) -> tuple[str, Up]:
    """PATTERN=AXIS in two."""
    pattern, _, axis = text.rpartition("=")
    for up in get_args(Up):
        if pattern and axis == up:
            return pattern, up
    raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=y, PATTERN=z or PATTERN=auto")
