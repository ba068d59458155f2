"""Files to be ingested."""

import json
from pathlib import Path
from typing import Any

from tests.app.house import box, png
from tests.files import put

COLOURS = ("red", "green", "blue")
CUBE = "mtllib {0}.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 4\nf 1 3 4\n"


def write_manifest(path: Path, lines: list[dict[str, Any]]) -> Path:
    return put(path, "".join(json.dumps(line) + "\n" for line in lines))


def write_boxes(folder: Path) -> Path:
    """A manifest of three boxes, each with a mesh, a photo and two captions."""
    lines: list[dict[str, Any]] = []
    for colour in COLOURS:
        put(folder / f"{colour}.glb", box(colour))
        put(folder / f"{colour}.png", png(colour))
        texts = [f"a {colour} box", f"{colour} thing"]
        files = {"mesh": f"{colour}.glb", "images": [f"{colour}.png"]}
        lines.append({"id": colour, "texts": texts, "meta": {"is": colour}, **files})
    return write_manifest(folder / "manifest.jsonl", lines)


def change_entry(manifest: Path, index: int, **fields: Any) -> None:  # noqa: ANN401 (any JSON)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    lines[index].update(fields)
    write_manifest(manifest, lines)
