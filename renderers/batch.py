"""Many meshes into a folder of pictures, nothing twice: the work of `multifold render`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from tqdm import tqdm

from multifold.errors import MultifoldError
from renderers.backdrop import Background
from renderers.base import Views
from renderers.content import content_hash
from renderers.engines import engine
from renderers.errors import MeshError
from renderers.files.container import EXTENSIONS
from renderers.mesh import Up
from renderers.record import Drawn, Record
from renderers.sandbox import Sandbox

_SAVE_EVERY = 200


class Found(NamedTuple):
    """A mesh file."""

    path: Path
    within: Path  # the folder whose files it may name


@dataclass(frozen=True)
class Order:
    """How meshes are drawn and saved."""

    out: Path
    rig: str
    size: int
    background: Background
    up: Up
    up_of: tuple[tuple[str, Up], ...]  # patterns of names that know better; the last that fits counts
    format: str
    engine: str
    workers: int

    def up_for(self, name: str) -> Up:
        """What the caller says of this mesh."""
        return next((up for pattern, up in reversed(self.up_of) if fnmatch(name, pattern)), self.up)

    def stamp(self, name: str, mesh: Found) -> str:
        """All that decides the pictures of a mesh, in one word."""
        content = content_hash(mesh.path, within=mesh.within)
        settings = (self.rig, self.size, self.background, self.up_for(name), self.format)
        return "-".join(map(str, (content, *settings, engine(self.engine).pixels)))


@dataclass(frozen=True)
class Outcome:
    """What became of the meshes."""

    rendered: int
    done: tuple[str, ...]  # rendered now or before
    skipped: Mapping[str, str]  # name -> reason


def find_meshes(paths: Iterable[Path]) -> dict[str, Found]:
    """Name -> file of every mesh: files as given, folders searched; a name is relative to its folder."""
    meshes: dict[str, Found] = {}
    for name, mesh in _found(paths):
        known = meshes.setdefault(name, mesh).path
        if known.resolve() != mesh.path.resolve():
            raise MultifoldError(
                f"{known} and {mesh.path} would both be called {name}. Render them into different folders."
            )
    return meshes


def render(order: Order, meshes: Mapping[str, Found], record: Record) -> Outcome:
    """Draw what is not yet there; the record is kept even if this is interrupted."""
    stamps, skipped = _stamps(order, meshes)
    missing = [name for name in stamps if not record.holds(name, stamps[name])]
    try:
        for name, refusal in _drawn(order, {name: meshes[name] for name in missing}, stamps, record):
            skipped[name] = refusal
    finally:
        if missing or skipped != record.skipped:
            record.skipped = skipped
            record.write()
    done = tuple(name for name in stamps if name not in skipped)
    return Outcome(len(set(missing) - skipped.keys()), done, skipped)


def _found(paths: Iterable[Path]) -> Iterator[tuple[str, Found]]:
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix.lower() in EXTENSIONS)
            for one in filter(Path.is_file, inside):
                yield one.relative_to(path).as_posix(), Found(one, path)
        elif path.is_file():
            yield path.name, Found(path, path.parent)
        else:
            raise MultifoldError(f"there is no file or folder {path}")


def _stamps(order: Order, meshes: Mapping[str, Found]) -> tuple[dict[str, str], dict[str, str]]:
    """The stamps of the meshes, and the reasons against those that cannot be read."""
    stamps: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, mesh in tqdm(meshes.items(), "reading", unit="mesh", delay=2):
        try:
            stamps[name] = order.stamp(name, mesh)
        except MeshError as error:
            skipped[name] = str(error)
    return stamps, skipped


def _drawn(
    order: Order, missing: Mapping[str, Found], stamps: Mapping[str, str], record: Record
) -> Iterator[tuple[str, str]]:
    """Draw and save these meshes; gives those that were refused, and why."""
    if not missing:
        return
    with Sandbox(min(order.workers, len(missing)), engine=order.engine) as sandbox:
        jobs = ((mesh.path, order.up_for(name), mesh.within) for name, mesh in missing.items())
        drawings = sandbox.draw_many(jobs, order.rig, order.size, order.background)
        progress = tqdm(drawings, "rendering", len(missing), unit="mesh")
        for number, (name, drawing) in enumerate(zip(missing, progress, strict=True), start=1):
            if isinstance(drawing, MeshError):
                yield name, str(drawing)
                continue
            pictures = _save(drawing.views, order, name)
            record.add(name, Drawn(stamps[name], pictures, drawing.up, drawing.up_reason, drawing.notes))
            if number % _SAVE_EVERY == 0:
                record.write()


def _save(views: Views, order: Order, name: str) -> tuple[str, ...]:
    """Write the pictures of one mesh; gives their names relative to the folder."""
    (order.out / name).mkdir(parents=True, exist_ok=True)
    files = tuple(f"{name}/{number:02}.{order.format}" for number in range(len(views)))
    for file, view in zip(files, views, strict=True):
        Image.fromarray(view).save(order.out / file, quality=90)
    return files
