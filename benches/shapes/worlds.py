"""The pieces of furniture that `multifold bench shapes` trains on and asks for, and turned copies of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32

from multifold import manifest
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshMaterial, MeshModel
from renderers.mesh.glb import encode_glb
from renderers.mesh.load import load_model
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.furniture.modeling.facts import Attribute

Change: TypeAlias = Callable[[MeshModel, ManifestEntry], MeshModel]

UNSEEN_ON_GREY: tuple[Attribute, ...] = ("colour", "pattern", "material")
FEW_SIDES = 2
LARGEST = 10.0  # how much larger or smaller a copy may be


@dataclass(frozen=True)
class ShapeWorld:
    """Pieces to learn from, held-out pieces, and their copies, turned and rescaled."""

    train: Sequence[ManifestEntry]
    held_out: Sequence[ManifestEntry]
    turned: Sequence[ManifestEntry]

    @property
    def hidden(self) -> Bool[np.ndarray, " q"]:
        """For each held-out caption: does it name a fact that is seen from two sides at most?"""
        return np.array([rare for entry in self.held_out for rare in names_hidden(entry)])


def make_world(name: str, items: int, cache: Path) -> ShapeWorld:
    """A world, written once into the cache."""
    folder = cache / f"shapes-{name}-{items}"
    path = folder / "furniture" / "manifest.jsonl"
    if not path.exists():
        order = FurnitureOrder(folder / "furniture", 0, unsaid=UNSEEN_ON_GREY if name == "grey" else ())
        write_furniture(order, items, workers=cores())
    entries = list(manifest.read(path))
    if name == "grey":
        entries = [_rewritten(entry, folder / "grey", grey) for entry in entries]
    held_out = [entry for entry in entries if entry.split != "train"]
    turned = [_rewritten(entry, folder / "turned", turn) for entry in held_out]
    return ShapeWorld([entry for entry in entries if entry.split == "train"], held_out, turned)


def names_hidden(entry: ManifestEntry) -> list[bool]:
    """Whether each caption of a piece names a fact that few sides show; its kind shows from all of them."""
    few = {fact for fact, sides in entry.meta["facts"].items() if len(sides) <= FEW_SIDES}
    return [not few.isdisjoint(caption) for caption in entry.meta["captions"]]


def grey(model: MeshModel, _: ManifestEntry) -> MeshModel:
    """The same form in one grey."""
    bare = np.zeros_like(model.material_of)
    return replace(model, materials=(MeshMaterial(),), material_of=bare, colors=np.ones_like(model.colors))


def turn(model: MeshModel, entry: ManifestEntry) -> MeshModel:
    """The same piece turned about the vertical by any angle, and larger or smaller."""
    rng = np.random.default_rng([*entry.id.encode()])
    angle, size = rng.uniform(0, 2 * np.pi), LARGEST ** rng.uniform(-1, 1)
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]], np.float32)
    vertices = _matrix_product(model.vertices, matrix) * np.float32(size)
    return replace(model, vertices=vertices, normals=_matrix_product(model.normals, matrix))


def _matrix_product(
    vectors: Float32[np.ndarray, "*n 3"], matrix: Float32[np.ndarray, "3 3"]
) -> Float32[np.ndarray, "*n 3"]:
    return np.asarray(vectors @ matrix.T, np.float32)


def _rewritten(entry: ManifestEntry, folder: Path, change: Change) -> ManifestEntry:
    """The piece with a mesh that is changed and written anew, once."""
    path = folder / f"{entry.id}.glb"
    if not path.exists():
        assert entry.mesh is not None
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_glb(change(load_model(entry.mesh), entry)))
    return replace(entry, mesh=path)
