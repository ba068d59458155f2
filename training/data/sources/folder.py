"""One's own folder: meshes and pictures, each with its captions beside it.

Files of one name are one item: `chair.glb`, `chair.jpg`, `chair.txt`. Captions come from

    chair.txt       a caption a line
    chair.json      a text, a list of texts, or {"texts": […], "id": …, "split": …, "meta": {…}}
    captions.csv    (any name) a row a caption: the columns `file` and `caption`, and `split` if there is one

A folder with `captions.txt` or `captions.json` in it is one item with all that lies there.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from multifold.manifest import Entry
from renderers.files.container import EXTENSIONS
from training.data.sources import text
from training.data.sources.found import Found, SourceError, split_of

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
NAMES_TEXTURES = (".mtl", ".gltf")  # files that may name pictures which are no views of anything
WHOLE = "captions"
FILE = ("file", "filename", "file_name", "image", "path", "model", "mesh", "id", "name")
CAPTION = ("caption", "text", "description", "comment", "title")


@dataclass
class Item:
    """What has been gathered under one name."""

    pictures: list[Path] = field(default_factory=list)
    meshes: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)  # what a .json says besides


def read(root: Path, percentages: Sequence[int]) -> Found:
    """Every item below a folder; those with the very same texts go into the same split."""
    if not root.is_dir():
        raise SourceError(f"there is no folder {root}")
    found, items = Found(), defaultdict[str, Item](Item)
    tables = [path for folder, names in _folders(root) for path in _gather(root, folder, names, items, found)]
    for path in tables:
        _add_table(path, root, items, found)
    for name in sorted(items):
        entry = _entry(name, items[name], percentages, found)
        if entry is not None:
            found.entries.append(entry)
    return _unique(found)


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, inside, names in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith((".", "__MACOSX")))
        yield Path(folder), sorted(name for name in names if not name.startswith("."))


def _gather(root: Path, folder: Path, names: list[str], items: dict[str, Item], found: Found) -> list[Path]:
    """Put a folder's files where they belong; its tables, which may speak of any file, are left for later."""
    paths = [folder / name for name in names]
    textures = b"".join(path.read_bytes() for path in paths if path.suffix.lower() in NAMES_TEXTURES)
    whole = any(path.stem.lower() == WHOLE and path.suffix.lower() in (".txt", ".json") for path in paths)
    for path in paths:
        suffix, item = path.suffix.lower(), items[_name(folder if whole else path.with_suffix(""), root)]
        if suffix in EXTENSIONS:
            item.meshes.append(path)
        elif suffix in PICTURES and path.name.encode() not in textures:
            item.pictures.append(path)
        elif suffix == ".txt":
            item.texts += text.lines(path)
        elif suffix == ".json":
            _add_json(path, item, found)
    return [path for path in paths if path.suffix.lower() in (".csv", ".tsv")]


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _add_json(path: Path, item: Item, found: Found) -> None:
    try:
        said = json.loads(text.read(path))
    except (ValueError, RecursionError) as error:
        found.problems.append(f"{path} is not JSON: {error}")
        return
    said = {"texts": said} if isinstance(said, str | list) else said
    given = said.get("texts", said.get("captions", said.get("caption", said.get("text", []))))
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        found.problems.append(f"{path}: texts must be a list of strings")
        return
    item.texts += [each.strip() for each in given if each.strip()]
    item.said |= {key: said[key] for key in ("id", "split", "meta") if key in said}


def _add_table(path: Path, root: Path, items: dict[str, Item], found: Found) -> None:
    """Rows name files as they lie beside the table or below the root, with their suffix or without."""
    for row in text.table(path):
        named, caption = text.column(row, FILE, path), text.column(row, CAPTION, path)
        places = [
            _name(place, root)
            for base in (path.parent, root)
            for place in (Path(os.path.normpath(base / named)),)
            if place.is_relative_to(root)
        ]
        bare = [str(Path(place).with_suffix("")) for place in places]
        item = next((items[place] for place in [*places, *bare] if place in items), None)
        if item is None:
            found.problems.append(f"{path}: there is no file {named}")
        elif caption:
            item.texts.append(caption)
            item.said |= {"split": row["split"]} if row.get("split") else {}


def _entry(name: str, item: Item, percentages: Sequence[int], found: Found) -> Entry | None:
    if not item.meshes and not item.pictures:
        if item.texts:
            found.problems.append(f"left out {name}: it has captions, and neither a mesh nor a picture")
        return None
    if len(item.meshes) > 1:
        others = ", ".join(mesh.name for mesh in item.meshes[1:])
        found.problems.append(f"{name} has several meshes; {item.meshes[0].name} is taken, not {others}")
    if not item.texts:
        found.problems.append(f"{name} has no captions: it can be searched, not learned from")
    texts = tuple(dict.fromkeys(item.texts))
    return Entry(
        id=str(item.said.get("id", name)),
        images=tuple(item.pictures),
        mesh=item.meshes[0] if item.meshes else None,
        texts=texts,
        split=str(item.said.get("split") or split_of("\n".join(sorted(texts)) or name, percentages)),
        meta=item.said.get("meta", {}) if isinstance(item.said.get("meta", {}), dict) else {},
    )


def _unique(found: Found) -> Found:
    """An id that stands twice gets its place in the row."""
    seen: set[str] = set()
    for place, entry in enumerate(found.entries):
        if entry.id in seen:
            found.problems.append(f"the id {entry.id} stands twice; the second is called {entry.id}#{place}")
            found.entries[place] = replace(entry, id=f"{entry.id}#{place}")
        seen.add(found.entries[place].id)
    return found
