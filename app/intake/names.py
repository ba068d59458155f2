"""Words of file and folder names, as captions for what nobody has described."""

import re
from pathlib import PurePath

from multifold.folder import HEIF, PICTURES
from renderers.files.container import EXTENSIONS

EMPTY = """
assets asset img image images dsc dscn dscf pxl photo photos picture pictures pic model models mesh
meshes scan untitled new copy final file files data gltf glb obj ply stl off dae step stp png jpg
jpeg webp gif texture textures src source sources export exports vid mvi
"""  # words that say nothing of what a file shows
SUFFIXES = frozenset((*EXTENSIONS, *PICTURES, *HEIF))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", re.UNICODE)


def words(name: str) -> list[str]:
    """`kitchenTable_A-2` as kitchen, table, a, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def bare(file: PurePath) -> PurePath:
    """Without its suffix, or both where an exporter left two: `lamp.gltf.glb` is the lamp."""
    while file.suffix.lower() in SUFFIXES:
        file = file.with_suffix("")
    return file


def captions(name: PurePath) -> tuple[str, ...]:
    """What the name of an item says of it, and the same with the nearest folder whose name says something."""
    own = words(name.name)
    if not _says_something(own):
        own = []
    folder = next((found for parent in name.parents if _says_something(found := words(parent.name))), [])
    both = [*folder, *own]
    told = [" ".join(part) for part in (own, both) if part]
    return tuple(dict.fromkeys(told))


def _says_something(found: list[str]) -> bool:
    return any(len(word) > 1 and not word.isdigit() and word not in EMPTY.split() for word in found)
