"""A manifest of game kits: real models and pictures, with captions from names, folders and tags.

    python -m benches.learning.kits FOLDER kits.jsonl

FOLDER has an `items.jsonl` with one file a line: its `kind` (model or image), `file`, `text` (its name),
`group` (its kit), `split`, and the `object` that several pictures show. An object is one item with all its
pictures.
Its captions are its name, the name with the kit, the name with its folders, and all words as tags.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from multifold import manifest
from multifold.manifest import ManifestEntry

SILENT = {"assets", "gltf", "models", "images", "textures"}  # folders whose names tell nothing of a thing
VERSION = re.compile(r"[( -]+[\d.]+\)?$")


def kit_entries(folder: Path) -> list[ManifestEntry]:
    """The items of a folder, in the order of its list."""
    files = defaultdict[str, list[Mapping[str, Any]]](list)
    for line in (folder / "items.jsonl").read_text(encoding="utf-8").splitlines():
        file = json.loads(line)
        files[file.get("object", file["id"])].append(file)
    return [_entry(folder, name, several) for name, several in files.items()]


def _entry(folder: Path, name: str, files: Sequence[Mapping[str, Any]]) -> ManifestEntry:
    first, paths = files[0], [folder / file["file"] for file in files]
    is_model = first["kind"] == "model"
    return ManifestEntry(
        id=name,
        images=() if is_model else tuple(paths),
        mesh=paths[0] if is_model else None,
        texts=captions(first),
        split=first["split"],
        meta={"kit": first["group"]},
    )


def captions(file: Mapping[str, Any]) -> tuple[str, ...]:
    """What is known of a file in words, said in up to four ways."""
    name, kit = file["text"], VERSION.sub("", file["group"]).replace("-", " ").lower()
    folders = PurePosixPath(file["file"]).parts[3:-1]
    places = " ".join(part.replace("_", " ").lower() for part in folders if part.lower() not in SILENT)
    tags = ", ".join(sorted({*name.split(), *kit.split(), *places.split()}))
    return tuple(dict.fromkeys([name, f"{name}, {kit}", f"{places or kit} {name}", tags]))


if __name__ == "__main__":
    manifest.write(Path(sys.argv[2]), kit_entries(Path(sys.argv[1])))
