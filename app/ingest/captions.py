"""Captions of an item that comes with none: words of its name, and what a glTF file says of itself.

Names of parts are no captions: a car has wheels, and is none.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
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
primitive sphere plane cylinder cone torus circle curve untitled auxscene gltf glb fbx dae export camera world
tmp temp parent child left right lod joint bone armature null empty
"""  # words that programs give to parts, and that tell only one of several alike from the others
SUFFIXES = frozenset((*EXTENSIONS, *folder.PICTURE_SUFFIXES, *folder.HEIF_SUFFIXES))
LARGEST_DESCRIPTION = 4 << 20  # bytes of glTF's JSON; a larger one is not read
LONGEST_CAPTION, MOST_EXTRAS = 200, 8  # letters of a caption; texts of extras
MOST_PART_WORDS = 24
CAPTION_KEYS = ("title", "name", "description", "part", "tags", "keywords")
_CODE = re.compile(r"(?=.*\d)[0-9a-f_-]{12,}", re.IGNORECASE)  # no word: a hash, or a number
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", re.UNICODE)


@dataclass(frozen=True)
class MeshWords:
    """What a glTF file says of itself."""

    captions: tuple[str, ...] = ()  # its title and extras, as they are
    parts: str = ""  # the words of the names of its parts, each once


NO_WORDS = MeshWords()


def entry_captions(
    entry: ManifestEntry, path: str, of_mesh: MeshWords = NO_WORDS, *, names: bool = True
) -> tuple[str, ...]:
    """The captions of an item of a folder: its own, else those of its name and of its mesh."""
    if entry.texts:
        return entry.texts
    of_name = name_captions(strip_suffixes(PurePosixPath(path))) if names else ()
    return (*of_name, *of_mesh.captions)


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
    words = [] if _CODE.fullmatch(name) else _split_words(name)
    return words if any(_is_word(word) and word not in EMPTY_NAMES.split() for word in words) else []


def _is_word(word: str) -> bool:
    return len(word) > 1 and not word.isdigit()


def read_mesh_words(mesh: Path) -> MeshWords:
    description = _read_description(mesh) if mesh.suffix.lower() in (".glb", ".gltf") else {}
    nodes = [node for key in ("scenes", "nodes", "meshes") for node in _objects(description.get(key))]
    extras = [text for one in (_dict(description.get("asset")), *nodes) for text in _texts(one.get("extras"))]
    captions = (text[:LONGEST_CAPTION].strip() for text in extras[:MOST_EXTRAS] if text.strip())
    words = dict.fromkeys(word for node in nodes for word in _words_of_part(node.get("name")))
    return MeshWords(tuple(dict.fromkeys(captions)), " ".join([*words][:MOST_PART_WORDS]))


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


def _words_of_part(name: object) -> list[str]:
    words = _split_words(name) if isinstance(name, str) and not _CODE.fullmatch(name) else []
    return [word for word in words if _is_word(word) and word not in EMPTY_PART_NAMES.split()]


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
