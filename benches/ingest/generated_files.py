"""A generated folder of files as people have them: photos, meshes, captions, and some that are broken."""

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.errors import needs_extra

with needs_extra("render"):
    import trimesh

PICTURES = ("jpg", "png", "webp", "gif", "tif", "bmp", "avif")
MESHES = ("glb", "stl", "ply", "obj", "off")
CAPTION_KINDS = ("txt", "json", "csv")
SIDE = 192
FOLDERS = 40


@dataclass
class GeneratedFiles:
    """The readable items, the unreadable ones, and the number of files."""

    good: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)  # ids of items, and paths of captions
    foreign: set[str] = field(default_factory=set)  # paths of files that we know and do not read
    others: set[str] = field(default_factory=set)  # paths of files that are nothing to us
    files: int = 0

    @property
    def skipped(self) -> set[str]:
        """The names that a report must give a reason for."""
        return self.broken | self.foreign


def make_files(root: Path, files: int, broken: float, seed: int) -> GeneratedFiles:
    """That many files in folders; each item is a photo or a mesh, every third with captions."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    heap = GeneratedFiles()
    for number in range(FOLDERS):
        _make_odd(root / f"shelf{number}", number, heap)
    number = 0
    while heap.files < files:
        path = root / f"shelf{number % FOLDERS}/part{number}"
        _make_item(root, path, number, heap, rng, broken)
        if number % 3 == 0:
            _say(path, number, heap, rng, broken)
        number += 1
    return heap


def change_captions(root: Path, heap: GeneratedFiles, seed: int) -> Iterator[str]:
    """Give some items another caption; names each."""
    rng = random.Random(seed)  # noqa: S311
    for name in rng.sample(sorted(heap.good), max(1, len(heap.good) // 100)):
        (root / f"{name}.txt").write_text("another caption\n")
        yield name


def _make_odd(folder: Path, number: int, heap: GeneratedFiles) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"old{number}.fbx").write_bytes(b"Kaydara FBX Binary")
    (folder / f"notes{number}.dat").write_bytes(b"\0")
    heap.foreign.add(str(folder / f"old{number}.fbx"))
    heap.others.add(str(folder / f"notes{number}.dat"))
    heap.files += 2


def _make_item(
    root: Path, path: Path, number: int, heap: GeneratedFiles, rng: random.Random, broken: float
) -> None:
    kinds = MESHES if number % 5 == 0 else PICTURES
    kind = kinds[rng.randrange(len(kinds))]
    file = path.with_name(f"{path.name}.{kind}")
    (_mesh if kind in MESHES else _picture)(file, rng)
    harmed = rng.random() < broken
    if harmed:
        data = file.read_bytes()
        whole = kind in ("obj", "bmp") or rng.random() < 0.5  # half of an OBJ file is one too
        file.write_bytes(b"broken" if whole else data[: len(data) // 3])
    (heap.broken if harmed else heap.good).add(path.relative_to(root).as_posix())
    heap.files += 1


def _picture(path: Path, rng: random.Random) -> None:
    pixels = np.full((SIDE, SIDE, 3), [rng.randrange(256) for _ in range(3)], np.uint8)
    for _ in range(6):
        left, top = rng.randrange(SIDE), rng.randrange(SIDE)
        pixels[top : top + 60, left : left + 60] = [rng.randrange(256) for _ in range(3)]
    Image.fromarray(pixels).save(path)


def _mesh(path: Path, rng: random.Random) -> None:
    size = [0.2 + rng.random() for _ in range(3)]
    mesh = trimesh.creation.box(extents=size)
    if rng.random() < 0.5:
        mesh = trimesh.creation.cylinder(radius=size[0], height=size[1], sections=24)
    mesh.export(path)


def _say(path: Path, number: int, heap: GeneratedFiles, rng: random.Random, broken: float) -> None:
    """Captions beside an item; where they are broken, the item is added without them."""
    text = f"a thing number {rng.randrange(10_000)} of {rng.choice(('wood', 'steel', 'glass'))}"
    kind = CAPTION_KINDS[rng.randrange(len(CAPTION_KINDS))]
    file = path.with_name(f"{path.name}.{kind}")
    if kind == "txt":
        file.write_text(text + "\n")
    elif kind == "json":
        harmed = rng.random() < broken
        sidecar = json.dumps({"texts": [text], "meta": {"made": 1900 + number % 120}})
        file.write_text(sidecar[:-5] if harmed else sidecar)
        if harmed:
            heap.broken.add(str(file))
    else:
        with file.open("w", newline="") as table:
            csv.writer(table).writerows([("file", "caption"), (path.name, text)])
    heap.files += 1
