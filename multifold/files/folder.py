"""A user's own folder as items: meshes and pictures, each with its captions beside it.

Files of one name are one item: `chair.glb`, `chair.jpg`, `chair.txt`; its id is `chair`, with the folders
above it. Captions come from

    chair.txt       a caption a line
    chair.json      a text, a list of texts, or {"texts": […], "id": …, "split": …, "meta": {…}}
    captions.csv    (any name) a row a caption: the columns `file` and `caption`, and `split` if there is one

A folder that contains `captions.txt` or `captions.json` is one item with all files in it; so is every folder
if the layout says one item a folder. Hidden files and links that leave the folder are not read.
"""

import json
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from multifold.bundle.preprocess import reads_heif
from multifold.errors import MultifoldError
from multifold.files import textfile
from multifold.manifest import ManifestEntry

TEXT_SUFFIXES = (".txt", ".json")
TABLE_SUFFIXES = (".csv", ".tsv")
FOLDER_CAPTIONS = "captions"  # `captions.txt` describes the whole folder
FILE_COLUMNS = ("file", "filename", "file_name", "image", "path", "model", "mesh", "id", "name")


class SideCarError(MultifoldError):
    """A file of captions that cannot be used; says why."""


JPEG_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")
PICTURE_SUFFIXES = (*JPEG_SUFFIXES, ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".avif")
HEIF_SUFFIXES = (".heic", ".heif", ".hif")  # read if the extra is installed
UNREADABLE_SUFFIXES = (".jxl", ".jp2", ".svg", ".psd", ".exr", ".hdr", ".tga")
RAW_SUFFIXES = (".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2")

ARCHIVE_SUFFIXES = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz")
FILM_SUFFIXES = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv")

ItemUnit: TypeAlias = Literal["file", "folder"]


class FolderError(MultifoldError):
    """A folder that cannot be read."""


@dataclass(frozen=True)
class FileProblem:
    """A file or an item that was left out or is odd, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class FolderLayout:
    """How a folder is to be read."""

    meshes: tuple[str, ...]  # suffixes of the mesh files that are read, the best first
    companions: Callable[[Path, Path], Iterable[Path]]  # the files that a mesh below a root names
    by: ItemUnit = "file"
    skip: frozenset[Path] = frozenset()  # folders that are not entered
    converters: Mapping[str, str] = field(default_factory=dict)  # suffix of what is not read -> what turns it

    @property
    def kinds(self) -> frozenset[str]:
        """Suffixes of all that can be seen."""
        return frozenset((*self.meshes, *PICTURE_SUFFIXES, *(HEIF_SUFFIXES if reads_heif() else ())))


@dataclass
class FolderContents:
    """Items, and the files and folders that are not among them."""

    entries: list[ManifestEntry] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)  # files that belong to no item
    unread: list[Path] = field(default_factory=list)  # folders that could not be entered


def read(
    root: Path, layout: FolderLayout, only: Collection[Path] | None = None, *, below: Path | None = None
) -> FolderContents:
    """The items of a folder, or those that some of its files belong to; sorted by name.

    Names are relative to the root, though only what lies `below` another folder may be asked for.
    """
    if not root.is_dir():
        raise FolderError(f"there is no folder {root}")
    reading = _FolderReader(root.resolve(), layout)
    if only is None:
        folders = reading.folders((below or root).resolve())
    else:
        parents = sorted({path.resolve().parent for path in only})
        folders = ((folder, [one.name for one in folder.iterdir() if not one.is_dir()]) for folder in parents)
    for folder, names in folders:
        reading.gather(folder, names)
    return reading.finish(None if only is None else {path.resolve() for path in only})


def files_of(entry: ManifestEntry) -> tuple[Path, ...]:
    """The mesh and the pictures of an item, its mesh first."""
    return (*(() if entry.mesh is None else (entry.mesh,)), *entry.images)


def printable_path(path: Path) -> str:
    """A path as it can be printed, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


@dataclass
class _ItemFiles:
    """What has been gathered under one name: files, captions and a description."""

    pictures: list[Path] = field(default_factory=list)
    meshes: list[Path] = field(default_factory=list)
    side_cars: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    id: str | None = None
    split: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def describe(self, path: Path) -> None:
        """Add what a `.txt` with a caption a line, or a `.json`, says."""
        self.side_cars.append(path)
        if path.suffix.lower() == ".txt":
            self.texts += textfile.lines(path)
            return
        try:
            value = json.loads(textfile.read(path))
        except (ValueError, RecursionError) as error:
            raise SideCarError(f"it is not JSON: {error}") from error
        fields = value if isinstance(value, dict) else {"texts": value}
        keys = (key for key in ("texts", "captions", "caption", "text") if key in fields)
        texts = fields.get(next(keys, None), [])
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SideCarError("texts must be a list of strings")
        if not isinstance(fields.get("meta", {}), dict):
            raise SideCarError("'meta' must be an object")
        self.texts += [text.strip() for text in texts if text.strip()]
        self.id = str(fields.get("id") or "") or self.id
        self.split = str(fields.get("split") or "") or self.split
        self.meta |= fields.get("meta", {})


class _FolderReader:
    def __init__(self, root: Path, layout: FolderLayout) -> None:
        self._root = root
        self._layout = layout
        self._contents = FolderContents()
        self._groups: dict[str, _ItemFiles] = defaultdict(_ItemFiles)
        self._owner: dict[str, str] = {}  # a file, with its suffix or without -> the name of its group
        self._tables: list[Path] = []
        self._odd: list[tuple[Path, str]] = []  # what is left out, and why

    def folders(self, start: Path) -> Iterator[tuple[Path, list[str]]]:
        """Every folder from here on, and the names in it."""

        def skip(error: OSError) -> None:
            self._contents.unread.append(Path(error.filename))
            reason = f"the folder cannot be read ({error.strerror}); see its permissions"
            self._report(Path(error.filename), reason)

        for folder, inside, names in os.walk(start, onerror=skip):
            here = Path(folder)
            inside[:] = sorted(name for name in inside if not _is_hidden(name) and self._enters(here / name))
            yield here, names

    def gather(self, folder: Path, names: list[str]) -> None:
        """Put a folder's files where they belong; tables may speak of any file, so they come later."""
        paths = [folder / name for name in sorted(names) if not _is_hidden(name)]
        whole = self._layout.by == "folder" or any(map(_describes_folder, paths))
        kinds = self._layout.kinds
        for path in paths:
            if path.suffix.lower() in kinds and self._usable(path):
                name = self._name(folder if whole else path.with_suffix(""))
                stem = path.with_suffix("")
                group = self._groups[name]
                is_mesh = path.suffix.lower() in self._layout.meshes
                (group.meshes if is_mesh else group.pictures).append(path)
                self._owner[self._name(path)] = name
                self._owner.setdefault(self._name(stem), name)
        for path in paths:
            if path.suffix.lower() not in kinds:
                of_folder = whole and _describes_folder(path)
                owner = self._owner.get(self._name(path.with_suffix("")))
                self._take_other(path, self._name(folder) if of_folder else owner)

    def finish(self, wanted: set[Path] | None) -> FolderContents:
        """The items; if some files are wanted, those that hold one of them, and what is odd of these."""
        for table in self._tables:
            self._add_table(table)
        meshes = [mesh for group in self._groups.values() for mesh in group.meshes]
        named = {path for mesh in meshes for path in self._layout.companions(mesh, self._root)}
        taken = set()
        for name, group in sorted(self._groups.items()):
            group.pictures = [path for path in group.pictures if path.resolve() not in named]
            seen = (*group.meshes, *group.pictures)
            paths = {path.resolve() for path in (*seen, *group.side_cars)}
            if seen and (wanted is None or not paths.isdisjoint(wanted)):
                self._contents.entries.append(self._entry(name, group))
                taken.add(name)
        self._contents.others = [path for path in self._contents.others if path.resolve() not in named]
        self._make_unique()
        if wanted is not None:
            self._contents.others = [path for path in self._contents.others if path.resolve() in wanted]
            self._odd = [
                (path, reason)
                for path, reason in self._odd
                if path.resolve() in wanted or self._owner.get(self._name(path.with_suffix(""))) in taken
            ]
        self._contents.problems = [FileProblem(printable_path(path), reason) for path, reason in self._odd]
        return self._contents

    def _take_other(self, path: Path, owner: str | None) -> None:
        """A side-car, a table, or a file that belongs to no item."""
        suffix = path.suffix.lower()
        if suffix in HEIF_SUFFIXES:
            self._report(path, "it needs a decoder: pip install 'multifold[heif]'; or save it as JPEG")
        elif suffix in (*UNREADABLE_SUFFIXES, *RAW_SUFFIXES):
            self._report(path, f"{suffix[1:]} pictures are not read; save it as JPEG, PNG or WebP")
        elif suffix in ARCHIVE_SUFFIXES:
            self._report(path, "archives are not opened; unpack it")
        elif suffix in FILM_SUFFIXES:
            self._report(path, "films are not read; save a picture of it")
        elif converter := self._layout.converters.get(suffix):
            self._report(path, f"{suffix[1:]} files are not read; convert it to glb with {converter}")
        elif not (suffix in TABLE_SUFFIXES or (suffix in TEXT_SUFFIXES and owner in self._groups)):
            self._contents.others.append(path)
        elif not self._usable(path):
            return
        elif suffix in TABLE_SUFFIXES:
            self._tables.append(path)
        elif owner is not None:
            try:
                self._groups[owner].describe(path)
            except MultifoldError as error:
                self._report(path, str(error))

    def _add_table(self, table: Path) -> None:
        """The captions of a table, whose files lie beside it or below the root."""
        try:
            rows = list(textfile.table(table))
            files = [textfile.column(row, FILE_COLUMNS, table) for row in rows]
            captions = [textfile.column(row, textfile.CAPTION_COLUMNS, table) for row in rows]
        except MultifoldError as error:
            self._report(table, str(error))
            return
        for file, caption, row in zip(files, captions, rows, strict=True):
            paths = [Path(os.path.normpath(base / file)) for base in (table.parent, self._root)]
            places = [self._name(path) for path in paths if path.is_relative_to(self._root)]
            owner = next((self._owner[place] for place in places if place in self._owner), None)
            if owner is None:
                self._report(table, f"there is no file {file}")
            elif caption:
                group = self._groups[owner]
                group.texts.append(caption)
                group.split = row.get("split") or group.split

    def _entry(self, name: str, group: _ItemFiles) -> ManifestEntry:
        best = self._layout.meshes.index
        meshes = sorted(group.meshes, key=lambda path: (best(path.suffix.lower()), path))
        for other in meshes[1:]:
            self._report(other, f"an item has one mesh, and {meshes[0].name} is taken; give it another name")
        mesh = meshes[0] if meshes else None
        texts = tuple(dict.fromkeys(group.texts))
        return ManifestEntry(group.id or name, tuple(group.pictures), mesh, texts, group.split, group.meta)

    def _make_unique(self) -> None:
        """An id that stands twice belongs to the first; the second is called by its file."""
        ids: set[str] = set()
        for place, entry in enumerate(self._contents.entries):
            if entry.id in ids:
                file = files_of(entry)[0]
                self._report(file, f"the id {entry.id} stands twice; this one is called {self._name(file)}")
                self._contents.entries[place] = replace(entry, id=self._name(file))
            ids.add(self._contents.entries[place].id)

    def _enters(self, folder: Path) -> bool:
        if folder.is_symlink():
            self._report(folder, "a link to a folder is not followed; name that folder itself")
            return False
        return folder.resolve() not in self._layout.skip

    def _usable(self, path: Path) -> bool:
        if reason := _reason_to_skip(path, self._root):
            self._report(path, reason)
        return not reason

    def _name(self, path: Path) -> str:
        # Macs may write an umlaut as two characters, where the caption of another machine has one.
        name = unicodedata.normalize("NFC", path.relative_to(self._root).as_posix())
        return self._root.name if name == "." else name

    def _report(self, path: Path, reason: str) -> None:
        self._odd.append((path, reason))


def _describes_folder(path: Path) -> bool:
    return path.stem.lower() == FOLDER_CAPTIONS and path.suffix.lower() in TEXT_SUFFIXES


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))


def _reason_to_skip(path: Path, root: Path) -> str | None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    if path.is_symlink() and not path.exists():
        return "it is a link that leads nowhere"
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        return "it is a link out of the folder; name the folder it leads to"
    return None if path.is_file() else "it is no file"
