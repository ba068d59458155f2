"""A part of a manifest on its way to a shard: what a worker gets, does, and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.bundle.canary import open_encoder
from multifold.bundle.preprocess import decode, pixels
from multifold.errors import MultifoldError
from multifold.files.feature_shards import FeatureRow, FeatureShard
from multifold.manifest import ManifestEntry
from multifold.types import Features, Pixels
from renderers.orders import MeshSource, PointOrder, ViewOrder
from renderers.points import PointSample
from renderers.sandbox import Sandbox

PICTURES_AT_ONCE = 64  # pictures that are encoded at once


@dataclass(frozen=True)
class ManifestPart:
    number: int
    entries: Sequence[ManifestEntry]

    @property
    def name(self) -> str:
        return f"{self.number:05d}"


@dataclass(frozen=True)
class PartFeatures:
    number: int
    shard: FeatureShard
    problems: Sequence[tuple[str, str]]  # id, reason


class FeatureExtractor:
    """A bundle and a sandbox in one process; a broken item is reported, and affects no other."""

    def __init__(self, bundle: Path) -> None:
        self.encoder = open_encoder(bundle, threads=1)
        self.sandbox = Sandbox(1)

    def __call__(self, part: ManifestPart) -> PartFeatures:
        rows: list[FeatureRow] = []
        features: list[Features] = [np.empty((0, self.encoder.bundle.geometry.feature_dim), np.float32)]
        problems: list[tuple[str, str]] = []
        waiting: list[tuple[FeatureRow, Pixels]] = []

        def encode_waiting() -> None:
            if waiting:
                rows.extend(row for row, _ in waiting)
                features.append(self.encoder.pixels(np.stack([picture for _, picture in waiting])))
                waiting.clear()

        for entry in part.entries:
            try:
                pictures, points = self._load(entry)
            except (MultifoldError, OSError) as error:
                problems.append((entry.id, str(error)))
                continue
            rows += [FeatureRow(entry.id, "caption", place, text) for place, text in enumerate(entry.texts)]
            features.append(self.encoder.texts(entry.texts).features)
            if points is not None:
                rows.append(FeatureRow(entry.id, "points", 0))
                features.append(self.encoder.points([points.rows()]))
            waiting += pictures
            if len(waiting) >= PICTURES_AT_ONCE:
                encode_waiting()
        encode_waiting()
        shard = FeatureShard(self.encoder.vector_id, tuple(rows), np.concatenate(features))
        return PartFeatures(part.number, shard, problems)

    def close(self) -> None:
        self.sandbox.close()

    def _load(self, entry: ManifestEntry) -> tuple[list[tuple[FeatureRow, Pixels]], PointSample | None]:
        """The pictures of an item, and the points of its mesh if the bundle reads points."""
        spec, image, reads = self.encoder.bundle.views, self.encoder.bundle.image, self.encoder.bundle.points
        photos = [decode(path.read_bytes()) for path in entry.images]
        views: list[Image.Image] = []
        points = None
        if entry.mesh is not None:
            sampled = None if reads is None else PointOrder(reads.points, reads.seed)
            order = ViewOrder(spec.rig, spec.size, spec.background, points=sampled)
            drawn = self.sandbox.draw(MeshSource(entry.mesh, up=spec.up), order)
            views = [Image.fromarray(view) for view in drawn.views]
            points = drawn.points
        rows = [FeatureRow(entry.id, "photo", place) for place in range(len(photos))]
        rows += [FeatureRow(entry.id, "view", place) for place in range(len(views))]
        squares = [pixels(picture, image) for picture in (*photos, *views)]
        return list(zip(rows, squares, strict=True)), points
