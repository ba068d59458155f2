"""Captions for items without any: from file and folder names, and from the metadata of glTF files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from multifold.files.folder import HEIF_SUFFIXES, PICTURE_SUFFIXES
from renderers.mesh.formats.mesh_file import EXTENSIONS, GLB_MAGIC

EMPTY_NAMES = """
assets asset img image images dsc dscn dscf pxl photo photos picture pictures pic model models mesh
meshes scan untitled new copy final file files data gltf glb obj ply stl off dae step stp png jpg
jpeg webp gif texture textures src source sources export exports vid mvi
"""  # words that say nothing of what a file shows
SUFFIXES = frozenset((*EXTENSIONS, *PICTURE_SUFFIXES, *HEIF_SUFFIXES))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", re.UNICODE)


def split_words(name: str) -> list[str]:
    """`kitchenTable_A-2` as kitchen, table, a, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def strip_suffixes(file: PurePath) -> PurePath:
    """Without its suffix, or both where an exporter left two: `lamp.gltf.glb` is the lamp."""
    while file.suffix.lower() in SUFFIXES:
        file = file.with_suffix("")
    return file


def name_captions(name: PurePath) -> tuple[str, ...]:
    """What the name of an item says of it, and the same with the nearest folder whose name says something."""
    own = split_words(name.name)
    if not _says_something(own):
        own = []
    folder = next(
        (found for parent in name.parents if _says_something(found := split_words(parent.name))), []
    )
    both = [*folder, *own]
    told = [" ".join(part) for part in (own, both) if part]
    return tuple(dict.fromkeys(told))


def _says_something(found: list[str]) -> bool:
    return any(len(word) > 1 and not word.isdigit() and word not in EMPTY_NAMES.split() for word in found)


LARGEST_DESCRIPTION = 4 << 20  # bytes of the description; a larger one is passed over
LONGEST_CAPTION, MOST_PARTS = 200, 8  # letters of a caption; parts that are named
CAPTION_KEYS = ("title", "name", "description", "part", "tags", "keywords")
EMPTY_PART_NAMES = """
scene root rootnode node object obj mesh cube default material group polygon geometry sketchfab model
primitive sphere plane untitled auxscene gltf glb fbx dae export camera world
"""  # what programs call parts of their own accord


def metadata_captions(mesh: Path) -> tuple[str, ...]:
    """Title and extras as they are, and the names of its parts as words; nothing of other formats."""
    described = _description(mesh) if mesh.suffix.lower() in (".glb", ".gltf") else {}
    nodes = [one for key in ("scenes", "nodes", "meshes") for one in _objects(described.get(key))]
    said = [text for one in (_dict(described.get("asset")), *nodes) for text in _extras(one.get("extras"))]
    names = dict.fromkeys(" ".join(found) for one in nodes if (found := _part_words(one.get("name"))))
    told = [*said[:MOST_PARTS], " ".join(list(names)[:MOST_PARTS])]
    return tuple(dict.fromkeys(text[:LONGEST_CAPTION].strip() for text in told if text.strip()))


def _description(mesh: Path) -> dict[str, Any]:
    """The JSON of the file; nothing if it is damaged, which drawing will say."""
    try:
        with open(mesh, "rb") as file:
            head = file.read(20)
            length = (
                int.from_bytes(head[12:16], "little") if head.startswith(GLB_MAGIC) else LARGEST_DESCRIPTION
            )
            data = head + file.read(min(length, LARGEST_DESCRIPTION))
        raw = data[20 : 20 + length] if head.startswith(GLB_MAGIC) else data
        return _dict(json.loads(raw)) if length <= LARGEST_DESCRIPTION else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _extras(extras: object) -> Iterator[str]:
    for key, value in _dict(extras).items():
        if key.lower() in CAPTION_KEYS:
            yield from (
                one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)
            )


def _part_words(name: object) -> list[str]:
    found = (
        [word for word in split_words(name) if word not in EMPTY_PART_NAMES.split()]
        if isinstance(name, str)
        else []
    )
    return found if any(len(word) > 1 and not word.isdigit() for word in found) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
