"""Points of items as a point tower reads them: sampled from meshes and grouped, in one array."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from multifold.bundle.point_groups import PointSpec, group_points
from multifold.errors import MultifoldError
from multifold.files import tar_shards
from multifold.machine import cores, map_ahead
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError, Up
from renderers.orders import PointOrder
from renderers.points import SAMPLER, PointSample
from renderers.sandbox import Sandbox
from training.data.views import mesh_source

ItemPoints: TypeAlias = Float32[np.ndarray, "i g k columns"]


class PointsError(MultifoldError):
    """An item without a surface to sample."""


def load_points(entries: Sequence[ManifestEntry], spec: PointSpec, up: Up, cache: Path) -> ItemPoints:
    """The groups of every entry's points; the cache is keyed by all that decides them."""
    if bare := [entry.id for entry in entries if entry.mesh is None]:
        raise PointsError(f"item {bare[0]} has no mesh, and points are sampled from meshes")
    path = cache / f"points-{_key(entries, spec, up)}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".partial")
        _sample(entries, spec, up, unfinished)
        unfinished.replace(path)
    stored: ItemPoints = np.load(path, mmap_mode="r")
    return stored


def _sample(entries: Sequence[ManifestEntry], spec: PointSpec, up: Up, path: Path) -> None:
    shape = (len(entries), spec.groups, spec.neighbours, spec.columns)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    with Sandbox(cores()) as sandbox:
        work = partial(_sample_one, sandbox, spec, up)
        samples = map_ahead(work, entries, sandbox.workers, 2 * sandbox.workers + 1)
        bar = tqdm(samples, "points", len(entries), unit="item", disable=None)
        for row, (entry, result) in enumerate(zip(entries, bar, strict=True)):
            if isinstance(result, MeshError | OSError):
                raise PointsError(f"{entry.mesh}: {result}")
            out[row] = group_points(result.rows(), spec)
    out.flush()


def _sample_one(
    sandbox: Sandbox, spec: PointSpec, up: Up, entry: ManifestEntry
) -> PointSample | MeshError | OSError:
    mesh = entry.mesh
    assert mesh is not None
    try:
        return sandbox.sample(mesh_source(mesh, up), PointOrder(spec.points, spec.seed)).points
    except (MeshError, OSError) as error:
        return error


def _key(entries: Sequence[ManifestEntry], spec: PointSpec, up: Up) -> str:
    digest = sha256(json.dumps([asdict(spec), up, SAMPLER], sort_keys=True).encode())
    for entry in entries:
        assert entry.mesh is not None
        digest.update(tar_shards.content_hash(entry.mesh).encode())
    return digest.hexdigest()[:16]


def some_groups(
    groups: ItemPoints, most: int, rng: np.random.Generator
) -> Float32[np.ndarray, "i some k columns"]:
    """At most so many groups of each item, in random order; 0: all."""
    if not most:
        return groups
    chosen = rng.random(groups.shape[:2]).argsort(axis=1)[:, :most]
    return groups[np.arange(len(groups))[:, None], chosen]


def spun_points(groups: ItemPoints, directions: int, most: float, rng: np.random.Generator) -> ItemPoints:
    """Each item's points turned about the vertical by up to so many degrees, either way."""
    turned = np.array(groups)
    if most:
        angles = np.deg2rad(rng.uniform(-most, most, len(groups))).astype(np.float32)
        cos = np.cos(angles)[:, None, None]
        sin = np.sin(angles)[:, None, None]
        for first in range(0, 3 * directions, 3):
            x, z = groups[..., first], groups[..., first + 2]
            turned[..., first], turned[..., first + 2] = cos * x + sin * z, cos * z - sin * x
    return turned
