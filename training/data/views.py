"""Views of items as an encoder sees them: kept as one array, or opened when a step asks."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64, UInt8
from PIL import Image
from tqdm import tqdm

from multifold.bundle.bundle import ViewSpec, file_hash
from multifold.bundle.preprocess import ImageSpec, decode, pixels
from multifold.errors import MultifoldError
from multifold.files import tar_shards
from multifold.machine import cores, map_ahead
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError, Views
from renderers.sandbox import Sandbox


class ViewsError(MultifoldError):
    """A training item that cannot be seen."""


def load_views(
    entries: Sequence[ManifestEntry], views: ViewSpec, image: ImageSpec, cache: Path
) -> UInt8[np.ndarray, "i v h w 3"]:
    """The pixels of every entry's views; the cache is keyed by all that decides them."""
    path = cache / f"views-{_key(entries, views, image)}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _render(entries, views, image, path)
    stored: UInt8[np.ndarray, "i v h w 3"] = np.load(path, mmap_mode="r")
    return stored


def _render(entries: Sequence[ManifestEntry], views: ViewSpec, image: ImageSpec, path: Path) -> None:
    """Draw the meshes and open the pictures, into a file that is renamed when it is complete."""
    shape = (len(entries), count_views(entries, views), image.size, image.size, 3)
    unfinished = path.with_suffix(".partial")
    out = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint8, shape=shape)
    bar = tqdm(total=len(entries), desc="views", unit="item", disable=None)
    meshes = [(row, entry.mesh) for row, entry in enumerate(entries) if entry.mesh is not None]
    with Sandbox(cores()) as sandbox:
        draw = partial(_render_one, sandbox, views)
        drawn = map_ahead(draw, [mesh for _, mesh in meshes], sandbox.workers, 2 * sandbox.workers + 1)
        for (row, mesh), result in zip(meshes, drawn, strict=True):
            if isinstance(result, MeshError):
                raise ViewsError(
                    f"{mesh}: {result} (`multifold data folder` leaves out what is broken)"
                ) from result
            _fill(out[row], [pixels(Image.fromarray(view), image) for view in result])
            bar.update()
    for row, entry in enumerate(entries):
        if entry.mesh is None:
            _fill(out[row], [open_picture(picture, image) for picture in entry.images])
            bar.update()
    bar.close()
    out.flush()
    del out
    unfinished.replace(path)


def _render_one(sandbox: Sandbox, views: ViewSpec, mesh: Path) -> Views | MeshError:
    inside = tar_shards.is_tar_member(mesh)
    data, suffix = (tar_shards.read_bytes(mesh), mesh.suffix) if inside else (mesh, None)
    try:
        return sandbox.render(data, suffix, views.rig, views.size, views.background, views.up)
    except MeshError as error:
        return error


def count_views(entries: Sequence[ManifestEntry], views: ViewSpec) -> int:
    """The number of views of an item: those of the rig, or the largest number of pictures."""
    for entry in entries:
        if entry.mesh is None and not entry.images:
            raise ViewsError(f"item {entry.id} has neither a mesh nor a picture to look at")
    return max(views.views if entry.mesh is not None else len(entry.images) for entry in entries)


def _fill(row: UInt8[np.ndarray, "v h w 3"], pictures: Sequence[UInt8[np.ndarray, "h w 3"]]) -> None:
    """An item with fewer pictures than others repeats them."""
    for place in range(len(row)):
        row[place] = pictures[place % len(pictures)]


def open_picture(picture: Path, image: ImageSpec) -> UInt8[np.ndarray, "h w 3"]:
    """A preprocessed picture; the error names its file."""
    try:
        return pixels(decode(tar_shards.read_bytes(picture)), image)
    except (MultifoldError, OSError) as error:
        raise ViewsError(f"{picture}: {error}") from error


def _key(entries: Sequence[ManifestEntry], views: ViewSpec, image: ImageSpec) -> str:
    digest = sha256(json.dumps([asdict(views), asdict(image)], sort_keys=True).encode())
    for entry in entries:
        for path in (entry.mesh,) if entry.mesh is not None else entry.images:
            tarred = tar_shards.is_tar_member(path)
            key = sha256(tar_shards.read_bytes(path)).hexdigest() if tarred else file_hash(path)
            digest.update(key.encode())
        if entry.mesh is None:
            digest.update(b"pictures")
    return digest.hexdigest()[:16]


Places: TypeAlias = Int64[np.ndarray, " b"]


class LazyViews:
    """Reads like an array [i v h w 3] where items and views are chosen one by one."""

    def __init__(
        self, entries: Sequence[ManifestEntry], views: ViewSpec, image: ImageSpec, cache: Path
    ) -> None:
        meshed = [place for place, entry in enumerate(entries) if entry.mesh is not None]
        self.entries, self.image = entries, image
        self.shape = (len(entries), count_views(entries, views), image.size, image.size, 3)
        drawn = [entries[place] for place in meshed]
        self._rendered = load_views(drawn, views, image, cache) if drawn else None
        self._rows = {place: row for row, place in enumerate(meshed)}

    def __getitem__(self, chosen: tuple[Places, Places]) -> UInt8[np.ndarray, "b h w 3"]:
        pairs = zip(*(places.tolist() for places in chosen), strict=True)
        return np.stack([*map_ahead(self._load, pairs, cores(), 2 * cores() + 1)])

    def _load(self, pair: tuple[int, int]) -> UInt8[np.ndarray, "h w 3"]:
        item, view = pair
        if self._rendered is not None and item in self._rows:
            place = view % self._rendered.shape[1]
            picture: UInt8[np.ndarray, "h w 3"] = self._rendered[self._rows[item], place]
            return picture
        images = self.entries[item].images
        return open_picture(images[view % len(images)], self.image)


def training_views(
    entries: Sequence[ManifestEntry], views: ViewSpec, image: ImageSpec, cache: Path
) -> UInt8[np.ndarray, "i v h w 3"] | LazyViews:
    """The views of a training, in memory or lazily read from shards."""
    if any(
        tar_shards.is_tar_member(path) for entry in entries if entry.mesh is None for path in entry.images
    ):
        return LazyViews(entries, views, image, cache)
    return np.asarray(load_views(entries, views, image, cache))
