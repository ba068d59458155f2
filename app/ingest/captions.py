"""Captions of an item that comes with none: words of its name, and what a glTF file says of itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from multifold.files import folder
from multifold.manifest import ManifestEntry
from renderers.mesh.formats.table import EXTENSIONS, GLB_MAGIC

EMPTY_NAMES = """
assets asset img image images dsc dscn dscf pxl photo photos picture pictures pic model models mesh
meshes scan untitled new copy final file files data gltf glb obj ply stl off dae step stp png jpg
jpeg webp gif texture textures src source sources export exports vid mvi
"""  # words that do not describe what a file shows
EMPTY_PART_NAMES = """
scene root rootnode node object obj mesh cube default material group polygon geometry sketchfab model
primitive sphere plane untitled auxscene gltf glb fbx dae export camera world
"""  # words that programs give to parts
SUFFIXES = frozenset((*EXTENSIONS, *folder.PICTURE_SUFFIXES, *folder.HEIF_SUFFIXES))
LARGEST_DESCRIPTION = 4 << 20  # bytes of glTF's JSON; a larger one is not read
LONGEST_CAPTION, MOST_PARTS = 200, 8  # letters of a caption; parts that are named
CAPTION_KEYS = ("title", "name", "description", "part", "tags", "keywords")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", re.UNICODE)


def entry_captions(
    entry: ManifestEntry, path: str, *, names: bool = True, metadata: bool = True
) -> tuple[str, ...]:
    """The captions of an item of a folder: its own, else those of its name and of its mesh."""
    if entry.texts:
        return entry.texts
    of_name = name_captions(strip_suffixes(PurePosixPath(path))) if names else ()
    return (*of_name, *(metadata_captions(entry.mesh) if metadata and entry.mesh else ()))


def strip_suffixes(file: PurePath) -> PurePath:
    """Without its suffix, or both where an exporter left two: `lamp.gltf.glb` is the lamp."""
    while file.suffix.lower() in SUFFIXES:
        file = file.with_suffix("")
    return file


def name_captions(name: PurePath) -> tuple[str, ...]:
    """The words of an item's name, and the same with the nearest folder whose name describes something."""
    own, *parents = (_describing_words(part.name) for part in (name, *name.parents))
    both = [*next(filter(None, parents), []), *own]
    return tuple(dict.fromkeys(" ".join(words) for words in (own, both) if words))


def _split_words(name: str) -> list[str]:
    """`kitchenTable_A-2` as kitchen, table, a, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def _describing_words(name: str) -> list[str]:
    words = _split_words(name)
    return words if any(_is_word(word) and word not in EMPTY_NAMES.split() for word in words) else []


def _is_word(word: str) -> bool:
    return len(word) > 1 and not word.isdigit()


def metadata_captions(mesh: Path) -> tuple[str, ...]:
    """Title and extras of a glTF file as they are, and the names of its parts as words."""
    description = _read_description(mesh) if mesh.suffix.lower() in (".glb", ".gltf") else {}
    nodes = [node for key in ("scenes", "nodes", "meshes") for node in _objects(description.get(key))]
    extras = [text for one in (_dict(description.get("asset")), *nodes) for text in _texts(one.get("extras"))]
    names = dict.fromkeys(" ".join(words) for node in nodes if (words := _part_words(node.get("name"))))
    texts = [*extras[:MOST_PARTS], " ".join(list(names)[:MOST_PARTS])]
    return tuple(dict.fromkeys(text[:LONGEST_CAPTION].strip() for text in texts if text.strip()))


def _read_description(mesh: Path) -> dict[str, Any]:
    """The JSON of the file; nothing if it is damaged, which the renderer will report."""
    try:
        with open(mesh, "rb") as file:
            head = file.read(20)
            is_glb = head.startswith(GLB_MAGIC)
            length = int.from_bytes(head[12:16], "little") if is_glb else LARGEST_DESCRIPTION
            data = head + file.read(min(length, LARGEST_DESCRIPTION))
        raw = data[20 : 20 + length] if is_glb else data
        return _dict(json.loads(raw)) if length <= LARGEST_DESCRIPTION else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _texts(extras: object) -> Iterator[str]:
    for key, value in _dict(extras).items():
        if key.lower() in CAPTION_KEYS:
            values = value if isinstance(value, list) else [value]
            yield from (one for one in values if isinstance(one, str))


def _part_words(name: object) -> list[str]:
    words = _split_words(name) if isinstance(name, str) else []
    words = [word for word in words if word not in EMPTY_PART_NAMES.split()]
    return words if any(map(_is_word, words)) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
