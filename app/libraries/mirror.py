"""Keeps a folder like a library, so that it is ingested as any folder is.

Each item has a folder of its own, named by its id: the files, what the library says of the item, and the
versions of the files. A file is fetched again only if its version has changed.
"""

import json
import shutil
from functools import partial
from pathlib import Path

from app.ingest.progress import show_progress
from app.libraries.contracts import Library, LibraryError, LibraryItem
from multifold.durable import make_folder, remove_temporary_files, write_file
from multifold.errors import MultifoldError
from multifold.files.folder import FOLDER_CAPTIONS, FileProblem
from multifold.machine import map_ahead

VERSIONS_FILE = ".versions.json"  # hidden: it is no file of the item
CAPTIONS_FILE = f"{FOLDER_CAPTIONS}.json"
FETCH_THREADS = 4  # items at once
FETCH_AHEAD = 16


def mirror_library(library: Library, folder: Path, *, allow_empty: bool = False) -> list[FileProblem]:
    """Make a folder like a library; gives what could not be read, which stays as it was."""
    make_folder(folder)
    ids = library.ids()
    gone = sorted({one.name for one in folder.iterdir()} - {*ids})
    if gone and not ids and not allow_empty:
        sentence = f"{library.name} lists no items now, and {len(gone)} were read from it"
        raise LibraryError(f"{sentence}. May the key read them? --allow-empty deletes them.")
    for name in gone:
        shutil.rmtree(folder / name)
    update = partial(_update, library, folder)
    done = map_ahead(update, ids, FETCH_THREADS, FETCH_AHEAD)
    return [problem for problem in show_progress(f"reading {library.name}", done, len(ids)) if problem]


def _update(library: Library, folder: Path, name: str) -> FileProblem | None:
    try:
        item = library.read(name)
        if item.files:
            _write_item(library, folder / name, name, item)
            return None
        shutil.rmtree(folder / name, ignore_errors=True)
        return FileProblem(name, "it has no mesh and no picture that can be read")
    except MultifoldError as error:
        return FileProblem(name, str(error))


def _write_item(library: Library, home: Path, name: str, item: LibraryItem) -> None:
    make_folder(home)
    remove_temporary_files(home)
    former = _read_versions(home)
    for file in item.files:
        path = home / file.name
        if former.get(file.name) != file.version or not path.is_file():
            library.fetch(file, path)
    kept = {VERSIONS_FILE, CAPTIONS_FILE, *(file.name for file in item.files)}
    for path in home.iterdir():
        if path.name not in kept:
            path.unlink()
    _write_json(home / CAPTIONS_FILE, {"id": name, "texts": item.texts, "meta": item.payload})
    _write_json(home / VERSIONS_FILE, {file.name: file.version for file in item.files})


def _read_versions(home: Path) -> dict[str, str]:
    try:
        return dict(json.loads((home / VERSIONS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}  # its files are fetched again


def _write_json(path: Path, value: object) -> None:
    data = json.dumps(value, ensure_ascii=False, indent=1).encode()
    if not path.is_file() or path.read_bytes() != data:
        write_file(path, data)
