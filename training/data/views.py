"""Views of a manifest's meshes as the encoder will see them: rendered once, kept as one array."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from tqdm import tqdm

from multifold.bundle import ViewSpec, file_hash
from multifold.errors import MultifoldError
from multifold.machine import cores
from multifold.manifest import Entry
from multifold.preprocess import ImageSpec, pixels
from renderers.errors import MeshError
from renderers.sandbox import Sandbox


class ViewsError(MultifoldError):
    """A training item whose mesh cannot be drawn."""


def load_views(
    entries: Sequence[Entry], views: ViewSpec, image: ImageSpec, cache: Path
) -> UInt8[np.ndarray, "i v h w 3"]:
    """The pixels of every entry's views; the cache is keyed by all that decides them."""
    path = cache / f"views-{_key(entries, views, image)}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _render(entries, views, image, path)
    stored: UInt8[np.ndarray, "i v h w 3"] = np.load(path, mmap_mode="r")
    return stored


def _render(entries: Sequence[Entry], views: ViewSpec, image: ImageSpec, path: Path) -> None:
    shape = (len(entries), views.views, image.size, image.size, 3)
    partial = path.with_suffix(".partial")
    out = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
    meshes = [_mesh(entry) for entry in entries]
    with Sandbox(cores()) as sandbox:
        drawn = sandbox.render_many(meshes, views.rig, views.size, views.background, views.up)
        for row, result in enumerate(tqdm(drawn, total=len(meshes), desc="rendering", unit="item")):
            if isinstance(result, MeshError):
                raise ViewsError(f"{meshes[row]}: {result}") from result
            out[row] = [pixels(Image.fromarray(view), image) for view in result]
    out.flush()
    del out
    partial.replace(path)


def _mesh(entry: Entry) -> Path:
    if entry.mesh is None:
        raise ViewsError(f"item {entry.id} has no mesh to render")
    return entry.mesh


def _key(entries: Sequence[Entry], views: ViewSpec, image: ImageSpec) -> str:
    digest = hashlib.sha256(json.dumps([asdict(views), asdict(image)], sort_keys=True).encode())
    for entry in entries:
        digest.update(file_hash(_mesh(entry)).encode())
    return digest.hexdigest()[:16]
