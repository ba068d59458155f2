"""Render meshes into pictures from several sides.

    multifold render chairs/ table.glb --out views --rig ring6 --size 224 --sheet

Folders are searched for .glb .gltf .obj .ply .stl .off. Each mesh gets a folder of pictures under --out. What
is already there, from the same content with the same settings, is not drawn again.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from multifold.errors import MultifoldError
from renderers import cameras
from renderers.base import Views, check_size, stamp
from renderers.content import content_hash
from renderers.errors import MeshError
from renderers.files.container import EXTENSIONS
from renderers.record import Record
from renderers.sandbox import Sandbox, cores
from renderers.sheet import ROWS, sheet
from renderers.software import SoftwareRenderer

_SAVE_EVERY = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="mesh files, or folders of them")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pictures go")
    parser.add_argument("--rig", default="ring6", help=f"cameras: {', '.join(cameras.NAMES)}, ringN, sphereN")
    parser.add_argument("--size", type=int, default=224, help="pixels on a side (default 224)")
    parser.add_argument("--background", choices=("white", "black"), default="white")
    parser.add_argument("--up", choices=("auto", "y", "z"), default="auto", help="which axis points up")
    parser.add_argument("--format", choices=("webp", "png"), default="webp")
    parser.add_argument("--sheet", action="store_true", help="also write contact sheets")
    parser.add_argument("--workers", type=int, default=cores(), help="processes (default: one for each core)")


def run(args: argparse.Namespace) -> int:
    check_size(args.size)
    views = len(cameras.rig(args.rig))
    meshes = dict(find_meshes(args.paths))
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"{len(meshes)} meshes, {views} views each ({args.rig}) at {args.size} pixels -> {args.out}")
    record = Record.read(args.out)
    skipped: dict[str, str] = {}
    stamps = _stamps(meshes, args, skipped)
    missing = {name: meshes[name] for name in stamps if not record.holds(name, stamps[name])}
    _render(missing, stamps, record, args, skipped)
    done = [name for name in stamps if name not in skipped]
    if args.sheet and done:
        _write_sheets(record, done, args.format)
    print(f"{len(missing) - len(skipped.keys() & missing.keys())} rendered, {len(done)} in all")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    return 0 if done else 1


def find_meshes(paths: list[Path]) -> Iterator[tuple[str, Path]]:
    """(name, file) of every mesh: files as given, folders searched; a name is relative to its folder."""
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix.lower() in EXTENSIONS)
            yield from ((one.relative_to(path).as_posix(), one) for one in inside)
        elif path.is_file():
            yield path.name, path
        else:
            raise MultifoldError(f"there is no file or folder {path}")


def _stamps(meshes: dict[str, Path], args: argparse.Namespace, skipped: dict[str, str]) -> dict[str, str]:
    """Content and settings of each mesh, in one word."""
    engine = stamp(SoftwareRenderer())
    settings = f"{args.rig}-{args.size}-{args.background}-{args.up}-{args.format}-{engine}"
    stamps: dict[str, str] = {}
    for name, path in meshes.items():
        try:
            stamps[name] = f"{content_hash(path)}-{settings}"
        except MeshError as error:
            skipped[name] = str(error)
    return stamps


def _render(
    missing: dict[str, Path],
    stamps: dict[str, str],
    record: Record,
    args: argparse.Namespace,
    skipped: dict[str, str],
) -> None:
    if not missing:
        return
    with Sandbox(min(args.workers, len(missing))) as sandbox:
        drawn = sandbox.render_many(missing.values(), args.rig, args.size, args.background, args.up)
        for number, (name, views) in enumerate(
            zip(missing, tqdm(drawn, "rendering", len(missing), unit="mesh"), strict=True), start=1
        ):
            if isinstance(views, MeshError):
                skipped[name] = str(views)
            else:
                record.add(name, stamps[name], _save(views, args.out, name, args.format))
            if number % _SAVE_EVERY == 0:
                record.write()
    record.write()


def _save(views: Views, out: Path, name: str, extension: str) -> list[str]:
    """Write the pictures of one mesh; gives their names relative to `out`."""
    (out / name).mkdir(parents=True, exist_ok=True)
    files = [f"{name}/{number:02}.{extension}" for number in range(len(views))]
    for file, view in zip(files, views, strict=True):
        Image.fromarray(view).save(out / file, quality=90)
    return files


def _write_sheets(record: Record, names: list[str], extension: str) -> None:
    for page, start in enumerate(range(0, len(names), ROWS)):
        rows = [
            (name, [Image.open(record.folder / one) for one in record.pictures[name]])
            for name in names[start : start + ROWS]
        ]
        sheet(rows).save(record.folder / f"sheet_{page:03}.{extension}", quality=90)
