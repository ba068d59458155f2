"""What a glTF file says of itself: titles, extras and names of its parts, as captions of what has none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.intake.names import words
from renderers.files.container import GLB_MAGIC

LARGEST = 4 << 20  # bytes of the description; a larger one is passed over
LONGEST, MOST = 200, 8  # letters of a caption; parts that are named
TOLD = ("title", "name", "description", "part", "tags", "keywords")
EMPTY = """
scene root rootnode node object obj mesh cube default material group polygon geometry sketchfab model
primitive sphere plane untitled auxscene gltf glb fbx dae export camera world
"""  # what programs call parts of their own accord


def captions(mesh: Path) -> tuple[str, ...]:
    """Title and extras as they are, and the names of its parts as words; nothing of other formats."""
    described = _description(mesh) if mesh.suffix.lower() in (".glb", ".gltf") else {}
    nodes = [one for key in ("scenes", "nodes", "meshes") for one in _objects(described.get(key))]
    said = [text for one in (_dict(described.get("asset")), *nodes) for text in _extras(one.get("extras"))]
    names = dict.fromkeys(" ".join(found) for one in nodes if (found := _words(one.get("name"))))
    told = [*said[:MOST], " ".join(list(names)[:MOST])]
    return tuple(dict.fromkeys(text[:LONGEST].strip() for text in told if text.strip()))


def _description(mesh: Path) -> dict[str, Any]:
    """The JSON of the file; nothing if it is damaged, which drawing will say."""
    try:
        with open(mesh, "rb") as file:
            head = file.read(20)
            length = int.from_bytes(head[12:16], "little") if head.startswith(GLB_MAGIC) else LARGEST
            data = head + file.read(min(length, LARGEST))
        raw = data[20 : 20 + length] if head.startswith(GLB_MAGIC) else data
        return _dict(json.loads(raw)) if length <= LARGEST else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _extras(extras: object) -> Iterator[str]:
    for key, value in _dict(extras).items():
        if key.lower() in TOLD:
            yield from (
                one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)
            )


def _words(name: object) -> list[str]:
    found = [word for word in words(name) if word not in EMPTY.split()] if isinstance(name, str) else []
    return found if any(len(word) > 1 and not word.isdigit() for word in found) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
