"""Many meshes rendered into a folder, with a record (`views.json`) so that nothing is drawn twice."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from tqdm import tqdm

from multifold.errors import MultifoldError
from renderers.contracts import Background, MeshError, Up, Views
from renderers.engines import engine
from renderers.mesh.formats.mesh_file import EXTENSIONS, content_hash
from renderers.sandbox import Sandbox

RECORD_FILE = "views.json"


@dataclass(frozen=True)
class RecordEntry:
    """One mesh in its pictures."""

    stamp: str  # of its content and of how it was drawn
    pictures: tuple[str, ...]
    up: str = ""  # the axis that was taken for up
    up_reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass
class RenderRecord:
    """The meshes of a folder of pictures, by name."""

    folder: Path
    drawn: dict[str, RecordEntry] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # by the last run, and why

    @classmethod
    def read(cls, folder: Path) -> "RenderRecord":
        """The record of a folder, empty if it has none."""
        try:
            kept = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
            drawn = {name: _entry_of(**one) for name, one in kept["meshes"].items()}
            return cls(folder, drawn, dict(kept.get("skipped", {})))
        except FileNotFoundError:
            return cls(folder)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MeshError(f"{folder / RECORD_FILE} is damaged. Delete it to render anew.") from error

    def holds(self, name: str, stamp: str) -> bool:
        """Whether this mesh has been rendered so, and its pictures are still there."""
        known = self.drawn.get(name)
        return (
            known is not None
            and known.stamp == stamp
            and all((self.folder / one).is_file() for one in known.pictures)
        )

    def add(self, name: str, drawn: RecordEntry) -> None:
        """Note the pictures of a mesh; those that it had and has no longer are deleted."""
        before = self.drawn.get(name)
        for picture in set(before.pictures if before else ()) - set(drawn.pictures):
            (self.folder / picture).unlink(missing_ok=True)
        self.drawn[name] = drawn

    def write(self) -> None:
        """Written beside and moved into place."""
        meshes = {name: asdict(self.drawn[name]) for name in sorted(self.drawn)}
        beside = self.folder / f"{RECORD_FILE}.tmp"
        kept = {"meshes": meshes, "skipped": self.skipped}
        beside.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
        beside.replace(self.folder / RECORD_FILE)


def _entry_of(
    stamp: str, pictures: Sequence[str], up: str = "", up_reason: str = "", notes: Sequence[str] = ()
) -> RecordEntry:
    return RecordEntry(stamp, tuple(pictures), up, up_reason, tuple(notes))


_SAVE_EVERY = 200


class MeshFile(NamedTuple):
    """A mesh file."""

    path: Path
    within: Path  # the folder whose files it may name


@dataclass(frozen=True)
class RenderSettings:
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

    def stamp(self, name: str, mesh: MeshFile) -> str:
        """All that decides the pictures of a mesh, in one word."""
        content = content_hash(mesh.path, within=mesh.within)
        settings = (self.rig, self.size, self.background, self.up_for(name), self.format)
        return "-".join(map(str, (content, *settings, engine(self.engine).pixels)))


@dataclass(frozen=True)
class RenderOutcome:
    """What became of the meshes."""

    rendered: int
    done: tuple[str, ...]  # rendered now or before
    skipped: Mapping[str, str]  # name -> reason


def find_meshes(paths: Iterable[Path]) -> dict[str, MeshFile]:
    """Name -> file of every mesh: files as given, folders searched; a name is relative to its folder."""
    meshes: dict[str, MeshFile] = {}
    for name, mesh in _search(paths):
        known = meshes.setdefault(name, mesh).path
        if known.resolve() != mesh.path.resolve():
            raise MultifoldError(
                f"{known} and {mesh.path} would both be called {name}. Render them into different folders."
            )
    return meshes


def render_meshes(
    order: RenderSettings, meshes: Mapping[str, MeshFile], record: RenderRecord
) -> RenderOutcome:
    """Draw what is not yet there; the record is kept even if this is interrupted."""
    stamps, skipped = _stamps(order, meshes)
    missing = [name for name in stamps if not record.holds(name, stamps[name])]
    try:
        for name, refusal in _draw_missing(order, {name: meshes[name] for name in missing}, stamps, record):
            skipped[name] = refusal
    finally:
        if missing or skipped != record.skipped:
            record.skipped = skipped
            record.write()
    done = tuple(name for name in stamps if name not in skipped)
    return RenderOutcome(len(set(missing) - skipped.keys()), done, skipped)


def _search(paths: Iterable[Path]) -> Iterator[tuple[str, MeshFile]]:
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix.lower() in EXTENSIONS)
            for one in filter(Path.is_file, inside):
                yield one.relative_to(path).as_posix(), MeshFile(one, path)
        elif path.is_file():
            yield path.name, MeshFile(path, path.parent)
        else:
            raise MultifoldError(f"there is no file or folder {path}")


def _stamps(order: RenderSettings, meshes: Mapping[str, MeshFile]) -> tuple[dict[str, str], dict[str, str]]:
    """The stamps of the meshes, and the reasons against those that cannot be read."""
    stamps: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, mesh in tqdm(meshes.items(), "reading", unit="mesh", delay=2):
        try:
            stamps[name] = order.stamp(name, mesh)
        except MeshError as error:
            skipped[name] = str(error)
    return stamps, skipped


def _draw_missing(
    order: RenderSettings, missing: Mapping[str, MeshFile], stamps: Mapping[str, str], record: RenderRecord
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
            record.add(
                name, RecordEntry(stamps[name], pictures, drawing.up, drawing.up_reason, drawing.notes)
            )
            if number % _SAVE_EVERY == 0:
                record.write()


def _save(views: Views, order: RenderSettings, name: str) -> tuple[str, ...]:
    """Write the pictures of one mesh; gives their names relative to the folder."""
    (order.out / name).mkdir(parents=True, exist_ok=True)
    files = tuple(f"{name}/{number:02}.{order.format}" for number in range(len(views)))
    for file, view in zip(files, views, strict=True):
        Image.fromarray(view).save(order.out / file, quality=90)
    return files
