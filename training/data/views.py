"""Views of items as an encoder sees them: kept as one array, or opened when a step asks."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64, UInt8
from PIL import Image
from tqdm import tqdm

from multifold.bundle.bundle import ViewSpec
from multifold.bundle.preprocess import ImageSpec, decode, pixels
from multifold.errors import MultifoldError
from multifold.files import tar_shards
from multifold.machine import cores, map_ahead
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError, Up
from renderers.orders import MeshSource, ViewOrder
from renderers.sandbox import Sandbox

Entries: TypeAlias = Sequence[ManifestEntry]
ItemViews: TypeAlias = UInt8[np.ndarray, "i v h w 3"]
Places: TypeAlias = Int64[np.ndarray, " b"]


class ViewsError(MultifoldError):
    """A training item that cannot be seen."""


@dataclass(frozen=True, eq=False)
class VisibleItems:
    """The items that can be seen, their views, and a sentence for each of the others."""

    entries: Entries
    views: "ItemViews | LazyViews"
    problems: Mapping[str, str]

    def all_views(self) -> "ItemViews | LazyViews":
        """The views; refused if an item cannot be seen."""
        for problem in self.problems.values():
            raise ViewsError(f"{problem} (`multifold data folder` leaves out what is broken)")
        return self.views


def visible_items(entries: Entries, views: ViewSpec, image: ImageSpec, cache: Path) -> VisibleItems:
    """The pixels of every entry's views; the cache is keyed by all that decides them."""
    shown, problems = _without_empty(entries)
    if not shown:
        return VisibleItems(shown, np.empty((0, 0, image.size, image.size, 3), np.uint8), problems)
    path = cache / f"views-{_key(shown, views, image)}.npy"
    report = path.with_suffix(".json")
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".partial")
        meshes = sum(entry.mesh is not None for entry in shown)
        print(f"preparing {len(shown):,} items, {meshes:,} of them to render, once: kept in {cache}")
        report.write_text(json.dumps(_render(shown, views, image, unfinished)), encoding="utf-8")
        unfinished.replace(path)
    broken = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    problems |= {shown[int(row)].id: problem for row, problem in broken.items()}
    whole = [entry for row, entry in enumerate(shown) if str(row) not in broken]
    return VisibleItems(whole, np.load(path, mmap_mode="r")[: len(whole)], problems)


def load_views(entries: Entries, views: ViewSpec, image: ImageSpec, cache: Path) -> ItemViews:
    """The views of all entries; refused if one cannot be seen."""
    return np.asarray(visible_items(entries, views, image, cache).all_views())


def _without_empty(entries: Entries) -> tuple[list[ManifestEntry], dict[str, str]]:
    shown = [entry for entry in entries if entry.mesh is not None or entry.images]
    seen = {entry.id for entry in shown}
    nothing = "has neither a mesh nor a picture to look at"
    return shown, {one.id: f"item {one.id} {nothing}" for one in entries if one.id not in seen}


def _render(entries: Entries, views: ViewSpec, image: ImageSpec, path: Path) -> dict[int, str]:
    """Draw the meshes and open the pictures; what is broken is named, and the others close ranks."""
    shape = (len(entries), count_views(entries, views), image.size, image.size, 3)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    meshes = [(row, entry.mesh) for row, entry in enumerate(entries) if entry.mesh is not None]
    broken: dict[int, str] = {}
    bar = tqdm(total=len(entries), desc="views", unit="item", disable=None)
    with Sandbox(cores()) as sandbox, bar:
        sources = (mesh_source(mesh, views.up) for _, mesh in meshes)
        drawn = sandbox.draw_many(sources, ViewOrder(views.rig, views.size, views.background))
        for (row, mesh), result in zip(meshes, drawn, strict=True):
            if isinstance(result, MeshError):
                broken[row] = f"{mesh}: {result}"
            else:
                _fill(out[row], [pixels(Image.fromarray(view), image) for view in result.views])
            bar.update()
        for row, entry in enumerate(entries):
            if entry.mesh is None:
                try:
                    _fill(out[row], [open_picture(picture, image) for picture in entry.images])
                except ViewsError as error:
                    broken[row] = str(error)
                bar.update()
    for place, row in enumerate(row for row in range(len(entries)) if row not in broken):
        if place != row:
            out[place] = out[row]
    out.flush()
    return broken


def mesh_source(mesh: Path, up: Up) -> MeshSource:
    """A mesh as a sandbox takes it, wherever it lies."""
    if tar_shards.is_tar_member(mesh):
        return MeshSource(tar_shards.read_bytes(mesh), mesh.suffix, up=up)
    return MeshSource(mesh, up=up)


def count_views(entries: Entries, views: ViewSpec) -> int:
    """The number of views of an item: those of the rig, or the largest number of pictures."""
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


def _key(entries: Entries, views: ViewSpec, image: ImageSpec) -> str:
    digest = sha256(json.dumps([asdict(views), asdict(image)], sort_keys=True).encode())
    for entry in entries:
        for path in (entry.mesh,) if entry.mesh is not None else entry.images:
            try:
                key = tar_shards.content_hash(path)
            except OSError:
                key = "missing"
            digest.update(key.encode())
        digest.update(b"pictures" if entry.mesh is None else b"")
    return digest.hexdigest()[:16]


class LazyViews:
    """Reads like an array [i v h w 3] where items and views are chosen one by one.

    Each item has its own number of views, stored with those of its like; what is not stored is opened.
    """

    def __init__(self, entries: Entries, most: int, image: ImageSpec) -> None:
        self.entries, self.image = entries, image
        self.shape = (len(entries), most, image.size, image.size, 3)
        self.stored: dict[int, UInt8[np.ndarray, "v h w 3"]] = {}

    def __getitem__(self, chosen: tuple[Places, Places]) -> UInt8[np.ndarray, "b h w 3"]:
        pairs = zip(*(places.tolist() for places in chosen), strict=True)
        return np.stack([*map_ahead(self._load, pairs, cores(), 2 * cores() + 1)])

    def _load(self, pair: tuple[int, int]) -> UInt8[np.ndarray, "h w 3"]:
        item, view = pair
        if item in self.stored:
            picture: UInt8[np.ndarray, "h w 3"] = self.stored[item][view % len(self.stored[item])]
            return picture
        images = self.entries[item].images
        return open_picture(images[view % len(images)], self.image)


def training_items(entries: Entries, views: ViewSpec, image: ImageSpec, cache: Path) -> VisibleItems:
    """The items of a training, each with as many views as it has; pictures in shards are opened lazily."""
    shown, problems = _without_empty(entries)
    groups: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in shown:
        if entry.mesh is not None or not any(map(tar_shards.is_tar_member, entry.images)):
            groups[count_views([entry], views)].append(entry)
    if len(groups) == 1 and len(*groups.values()) == len(shown):
        return visible_items(entries, views, image, cache)
    seen = {count: visible_items(some, views, image, cache) for count, some in groups.items()}
    problems |= {name: problem for group in seen.values() for name, problem in group.problems.items()}
    whole = [entry for entry in shown if entry.id not in problems]
    lazy = LazyViews(whole, count_views(whole, views), image)
    places = {entry.id: place for place, entry in enumerate(whole)}
    for group in seen.values():
        for entry, item in zip(group.entries, np.asarray(group.views), strict=True):
            lazy.stored[places[entry.id]] = item
    return VisibleItems(whole, lazy, problems)
