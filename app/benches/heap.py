"""A heap of files as people have them: photos, meshes, captions of every kind, and some that are broken."""

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

PICTURES = ("jpg", "png", "webp", "gif", "tif")
MESHES = ("glb", "stl", "ply", "obj")
SIDE = 192
FOLDERS = 40


@dataclass
class Heap:
    """What lies there: ids of items that can be read, ids of those that cannot, and all files."""

    good: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    files: int = 0


def make(root: Path, files: int, broken: float, seed: int) -> Heap:
    """So many files in folders; each item is a photo or a mesh, every third with captions beside it."""
    rng, heap = random.Random(seed), Heap()  # noqa: S311 (no secret)
    number = 0
    while heap.files < files:
        name = f"shelf{number % FOLDERS}/part{number}"
        kinds = MESHES if number % 5 == 0 else PICTURES
        kind = kinds[rng.randrange(len(kinds))]
        path = root / f"{name}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        (_mesh if kind in MESHES else _picture)(path, rng)
        harmed = rng.random() < broken
        if harmed:
            data = path.read_bytes()
            whole = kind == "obj" or rng.random() < 0.5  # half an OBJ file is an OBJ file
            path.write_bytes(b"broken" if whole else data[: len(data) // 3])
        (heap.broken if harmed else heap.good).add(name)
        heap.files += 1
        if number % 3 == 0:
            heap.files += _say(root / name, rng)
        number += 1
    return heap


def changed(root: Path, heap: Heap, seed: int) -> Iterator[str]:
    """Give some items other words; names each."""
    rng = random.Random(seed)  # noqa: S311
    for name in rng.sample(sorted(heap.good), max(1, len(heap.good) // 100)):
        (root / f"{name}.txt").write_text("another caption\n")
        yield name


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


def _say(path: Path, rng: random.Random) -> int:
    text = f"a thing number {rng.randrange(10_000)} of {rng.choice(('wood', 'steel', 'glass'))}"
    if rng.random() < 0.5:
        path.with_suffix(".txt").write_text(text + "\n")
    else:
        path.with_suffix(".json").write_text(json.dumps({"texts": [text], "meta": {"made": 2020}}))
    return 1
