"""Many meshes rendered or sampled into a folder; by a record (`views.json`) nothing is done twice."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from tqdm import tqdm

from multifold.errors import MultifoldError
from multifold.machine import map_ahead
from renderers.contracts import Background, MeshError, Up
from renderers.engines import engine
from renderers.mesh.formats.mesh_file import content_hash
from renderers.mesh.formats.table import EXTENSIONS
from renderers.orders import MeshSource, PointOrder, RenderedMesh, SampledMesh, ViewOrder
from renderers.point_files import save_points
from renderers.points import SAMPLER
from renderers.sandbox import Sandbox

RECORD_FILE = "views.json"
_SAVE_EVERY = 200  # meshes


@dataclass(frozen=True)
class RecordEntry:
    """One mesh in its pictures."""

    stamp: str  # of its content and of how it was drawn
    pictures: Sequence[str]
    up: str = ""  # the axis that was taken for up
    up_reason: str = ""
    notes: Sequence[str] = ()


@dataclass
class RenderRecord:
    """The meshes of a folder of pictures, by name."""

    folder: Path
    entries: dict[str, RecordEntry] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # by the last run, and why

    @classmethod
    def read(cls, folder: Path) -> "RenderRecord":
        """The record of a folder, empty if it has none."""
        try:
            raw = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
            entries = {name: RecordEntry(**one) for name, one in raw["meshes"].items()}
            return cls(folder, entries, dict(raw.get("skipped", {})))
        except FileNotFoundError:
            return cls(folder)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MeshError(f"{folder / RECORD_FILE} is damaged. Delete it to render anew.") from error

    def holds(self, name: str, stamp: str) -> bool:
        """Whether this mesh has been rendered so, and its pictures are still there."""
        entry = self.entries.get(name)
        if entry is None or entry.stamp != stamp:
            return False
        return all((self.folder / picture).is_file() for picture in entry.pictures)

    def add(self, name: str, entry: RecordEntry) -> None:
        """Note the pictures of a mesh; those that it had and has no longer are deleted."""
        before = self.entries.get(name)
        for picture in set(before.pictures if before else ()) - set(entry.pictures):
            (self.folder / picture).unlink(missing_ok=True)
        self.entries[name] = entry

    def write(self) -> None:
        """Written beside and moved into place."""
        meshes = {name: asdict(self.entries[name]) for name in sorted(self.entries)}
        text = json.dumps({"meshes": meshes, "skipped": self.skipped}, indent=1, ensure_ascii=False)
        temporary = self.folder / f"{RECORD_FILE}.tmp"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.folder / RECORD_FILE)


class MeshFile(NamedTuple):
    """A mesh file."""

    path: Path
    within: Path  # the folder whose files it may name


@dataclass(frozen=True)
class RenderSettings:
    out: Path
    rig: str
    size: int
    background: Background
    up: Up
    up_of: Sequence[tuple[str, Up]]  # by patterns of names; the last that fits counts
    format: str
    engine: str
    workers: int
    points: int = 0  # so many points of each surface in place of pictures
    seed: int = 0  # of the points

    def up_for(self, name: str) -> Up:
        """The up axis that the caller chose for this mesh."""
        return next((up for pattern, up in reversed(self.up_of) if fnmatch(name, pattern)), self.up)

    def stamp(self, name: str, mesh: MeshFile) -> str:
        """All that decides the pictures of a mesh, as one string."""
        content = content_hash(mesh.path, within=mesh.within)
        if self.points:
            return "-".join(
                map(str, (content, SAMPLER, self.points, self.seed, self.up_for(name), self.format))
            )
        options = (self.rig, self.size, self.background, self.up_for(name), self.format)
        return "-".join(map(str, (content, *options, engine(self.engine).pixels)))


@dataclass(frozen=True)
class RenderOutcome:
    rendered: int
    done: tuple[str, ...]  # rendered now or before
    skipped: Mapping[str, str]  # name -> reason


def find_meshes(paths: Iterable[Path]) -> dict[str, MeshFile]:
    """Name -> file of every mesh: files as given, folders searched; a name is relative to its folder."""
    meshes: dict[str, MeshFile] = {}
    for name, mesh in _search(paths):
        first = meshes.setdefault(name, mesh).path
        if first.resolve() != mesh.path.resolve():
            raise MultifoldError(
                f"{first} and {mesh.path} would both be called {name}. Render them into different folders."
            )
    return meshes


def render_meshes(
    settings: RenderSettings, meshes: Mapping[str, MeshFile], record: RenderRecord
) -> RenderOutcome:
    """Draw what is not yet there; the record is kept even if this is interrupted."""
    stamps, skipped = dict[str, str](), dict[str, str]()
    for name, mesh in tqdm(meshes.items(), "reading", unit="mesh", delay=2):
        try:
            stamps[name] = settings.stamp(name, mesh)
        except MeshError as error:
            skipped[name] = str(error)
    missing = {name: meshes[name] for name in stamps if not record.holds(name, stamps[name])}
    try:
        skipped.update(_draw_missing(settings, missing, stamps, record))
    finally:
        if missing or skipped != record.skipped:
            record.skipped = skipped
            record.write()
    done = tuple(name for name in stamps if name not in skipped)
    return RenderOutcome(len(missing.keys() - skipped.keys()), done, skipped)


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


def _draw_missing(
    settings: RenderSettings, missing: Mapping[str, MeshFile], stamps: Mapping[str, str], record: RenderRecord
) -> Iterator[tuple[str, str]]:
    """Draw and save these meshes; gives those that were refused, and why."""
    if not missing:
        return
    with Sandbox(min(settings.workers, len(missing)), engine=settings.engine) as sandbox:
        work = partial(_draw, sandbox, settings)
        results = map_ahead(work, missing.items(), sandbox.workers, 2 * sandbox.workers + 1)
        progress = tqdm(results, "sampling" if settings.points else "rendering", len(missing), unit="mesh")
        for number, (name, result) in enumerate(zip(missing, progress, strict=True), start=1):
            if isinstance(result, MeshError):
                yield name, str(result)
                continue
            report = result.report
            entry = RecordEntry(
                stamp=stamps[name],
                pictures=_save(result, settings, name),
                up=report.up,
                up_reason=report.up_reason,
                notes=report.notes,
            )
            record.add(name, entry)
            if number % _SAVE_EVERY == 0:
                record.write()


def _draw(
    sandbox: Sandbox, settings: RenderSettings, job: tuple[str, MeshFile]
) -> RenderedMesh | SampledMesh | MeshError:
    """One mesh drawn or sampled, as the settings say."""
    name, file = job
    source = MeshSource(file.path, within=file.within, up=settings.up_for(name))
    try:
        if settings.points:
            return sandbox.sample(source, PointOrder(settings.points, settings.seed))
        return sandbox.draw(source, ViewOrder(settings.rig, settings.size, settings.background))
    except MeshError as error:
        return error


def _save(result: RenderedMesh | SampledMesh, settings: RenderSettings, name: str) -> tuple[str, ...]:
    """Write the pictures or the points of one mesh; gives their names relative to the folder."""
    if isinstance(result, SampledMesh):
        save_points(result.points, settings.out / f"{name}.{settings.format}")
        return (f"{name}.{settings.format}",)
    (settings.out / name).mkdir(parents=True, exist_ok=True)
    files = tuple(f"{name}/{number:02}.{settings.format}" for number in range(len(result.views)))
    for file, view in zip(files, result.views, strict=True):
        Image.fromarray(view).save(settings.out / file, quality=90)
    return files
