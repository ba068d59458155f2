"""Views of items as the encoder will see them: meshes rendered, else pictures opened, kept as one array."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from tqdm import tqdm

from multifold import packed
from multifold.bundle import ViewSpec, file_hash
from multifold.errors import MultifoldError
from multifold.machine import ahead, cores
from multifold.manifest import Entry
from multifold.preprocess import ImageSpec, decode, pixels
from renderers.base import Views
from renderers.errors import MeshError
from renderers.sandbox import Sandbox


class ViewsError(MultifoldError):
    """A training item that cannot be seen."""


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
    """Draw the meshes and open the pictures, into a file that takes its name when it is complete."""
    shape = (len(entries), count(entries, views), image.size, image.size, 3)
    unfinished = path.with_suffix(".partial")
    out = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
    bar = tqdm(total=len(entries), desc="views", unit="item", disable=None)
    meshes = [(row, entry.mesh) for row, entry in enumerate(entries) if entry.mesh is not None]
    with Sandbox(cores()) as sandbox:
        draw = partial(_drawn, sandbox, views)
        drawn = ahead(draw, [mesh for _, mesh in meshes], sandbox.workers, 2 * sandbox.workers + 1)
        for (row, mesh), result in zip(meshes, drawn, strict=True):
            if isinstance(result, MeshError):
                raise ViewsError(
                    f"{mesh}: {result} (`multifold data folder` leaves out what is broken)"
                ) from result
            _fill(out[row], [pixels(Image.fromarray(view), image) for view in result])
            bar.update()
    for row, entry in enumerate(entries):
        if entry.mesh is None:
            _fill(out[row], [opened(picture, image) for picture in entry.images])
            bar.update()
    bar.close()
    out.flush()
    del out
    unfinished.replace(path)


def _drawn(sandbox: Sandbox, views: ViewSpec, mesh: Path) -> Views | MeshError:
    inside = packed.is_packed(mesh)
    data, suffix = (packed.read_bytes(mesh), mesh.suffix) if inside else (mesh, None)
    try:
        return sandbox.render(data, suffix, views.rig, views.size, views.background, views.up)
    except MeshError as error:
        return error


def count(entries: Sequence[Entry], views: ViewSpec) -> int:
    """How many views an item has: those of the rig, or as many pictures as the richest item brings."""
    for entry in entries:
        if entry.mesh is None and not entry.images:
            raise ViewsError(f"item {entry.id} has neither a mesh nor a picture to look at")
    return max(views.views if entry.mesh is not None else len(entry.images) for entry in entries)


def _fill(row: UInt8[np.ndarray, "v h w 3"], seen: Sequence[UInt8[np.ndarray, "h w 3"]]) -> None:
    """An item with fewer pictures than others shows them in turn."""
    for place in range(len(row)):
        row[place] = seen[place % len(seen)]


def opened(picture: Path, image: ImageSpec) -> UInt8[np.ndarray, "h w 3"]:
    """A picture as the encoder sees it; the error names it."""
    try:
        return pixels(decode(packed.read_bytes(picture)), image)
    except (MultifoldError, OSError) as error:
        raise ViewsError(f"{picture}: {error}") from error


def _key(entries: Sequence[Entry], views: ViewSpec, image: ImageSpec) -> str:
    digest = sha256(json.dumps([asdict(views), asdict(image)], sort_keys=True).encode())
    for entry in entries:
        for path in (entry.mesh,) if entry.mesh is not None else entry.images:
            digest.update(_hash(path).encode())
        if entry.mesh is None:
            digest.update(b"pictures")
    return digest.hexdigest()[:16]


def _hash(path: Path) -> str:
    return sha256(packed.read_bytes(path)).hexdigest() if packed.is_packed(path) else file_hash(path)
