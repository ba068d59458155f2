"""Prepares pictures, meshes and texts for an encoder, and is the space of a collection."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from app.encoding.no_encoder import NoEncoderError
from app.errors import ApiError
from app.settings import Settings
from index.store.item_rows import usable
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import decode, pixels
from multifold.types import (
    Aspect,
    Feature,
    Features,
    Metric,
    Observation,
    Pixels,
    Side,
    Vector,
    Vectors,
    pool_side,
)
from renderers.cameras import rig, standing_view
from renderers.contracts import LOOK, Views
from renderers.lanes import RenderLane
from renderers.orders import MeshSource, PointOrder, RenderedMesh, ViewOrder
from renderers.points import SAMPLER, PointSample
from renderers.sandbox import Sandbox

ViewPixels: TypeAlias = UInt8[np.ndarray, "v s s 3"]


@dataclass(frozen=True)
class MeshData:
    """The bytes of a mesh, and the suffix that says how to read them."""

    data: bytes
    suffix: str

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class MeshPath:
    """A mesh on this machine, which may name other files of the folder `within`."""

    path: Path
    within: Path | None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def open_drawing_encoder(folder: Path, threads: int) -> Encoder:
    """The verified encoder of a bundle, if shapes can be rendered here as it was trained on them."""
    encoder = open_encoder(folder, threads)
    bundle = encoder.bundle
    views = encoder.bundle.views
    if views.renderer != LOOK:
        raise BundleError(f"bundle {bundle.name} knows shapes by the look {views.renderer}; here is {LOOK}")
    if bundle.points is not None and bundle.points.sampler != SAMPLER:
        raise BundleError(f"bundle {bundle.name} knows points by {bundle.points.sampler}; here is {SAMPLER}")
    if len(rig(views.rig)) != views.views:
        raise BundleError(f"bundle {bundle.name} states {views.views} views; its rig {views.rig} has others")
    return encoder


def ignore_duration(_: float) -> None:
    """For callers that measure nothing."""


class ObservationEncoder:
    """Encodes observations as the bundle says, and is the space of its collections. For several threads."""

    def __init__(self, encoder: Encoder, sandbox: Sandbox, settings: Settings) -> None:
        self.encoder = encoder
        self._sandbox = sandbox
        self._max_pixels = settings.max_pixels
        self.on_rescore: Callable[[float], None] = ignore_duration  # is called with the seconds of each

    @property
    def renderers(self) -> int:
        return self._sandbox.workers

    @cached_property
    def standing_view(self) -> int:
        """The number of the view that stands for an item."""
        return standing_view(rig(self.encoder.bundle.views.rig)) if self.encoder.encodes else 0

    @property
    def vector_id(self) -> str:
        return self.encoder.vector_id

    @property
    def dim(self) -> int:
        return self.encoder.dim

    @property
    def metric(self) -> Metric:
        return self.encoder.metric

    @property
    def query_signs(self) -> Vector | None:
        return self.encoder.query_signs

    @property
    def sees(self) -> Mapping[Side, float]:
        return self.encoder.sees

    @property
    def alike(self) -> Mapping[Side, float]:
        return self.encoder.alike

    def vectors(self, features: Features) -> Vectors:
        return self.encoder.vectors(features)

    @property
    def rescores(self) -> bool:
        return self.encoder.rescores

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        """The geometry's own similarity of queries to candidates."""
        start = time.perf_counter()
        scores = self.encoder.rescore(query, candidates)
        self.on_rescore(time.perf_counter() - start)
        return scores

    def look(self, data: bytes) -> Pixels:
        return self.square(self.picture(data))

    def picture(self, data: bytes) -> Image.Image:
        return decode(data, self._max_pixels)

    def square(self, picture: Image.Image) -> Pixels:
        return pixels(picture, self.encoder.bundle.image)

    def draw(
        self,
        mesh: MeshData | MeshPath,
        lane: RenderLane = "any",
        *,
        view: int | None = None,
        size: int | None = None,
    ) -> RenderedMesh:
        """The views of a mesh, rendered as the bundle says, and notes about what was lost.

        A single view may have another size, for people to look at.
        """
        if not self.encoder.encodes:
            raise NoEncoderError
        spec = self.encoder.bundle.views
        points = self.encoder.bundle.points if view is None else None
        order = ViewOrder(
            rig=spec.rig,
            size=size or spec.size,
            background=spec.background,
            view=view,
            points=None if points is None else PointOrder(points.points, points.seed),
        )
        return self._sandbox.draw(self._source(mesh), order, lane)

    def sample(self, mesh: MeshData | MeshPath, count: int | None = None) -> PointSample:
        """Points of a mesh, as many as the bundle says or another count, sampled as it says."""
        spec = self.encoder.bundle.points
        if spec is None:
            raise BundleError(f"bundle {self.encoder.bundle.name} has no point tower")
        return self._sandbox.sample(self._source(mesh), PointOrder(count or spec.points, spec.seed)).points

    def glb(self, mesh: MeshData | MeshPath, lane: RenderLane = "any") -> bytes:
        """A mesh of any format as GLB, upright and in the unit ball, for viewers."""
        return self._sandbox.glb(self._source(mesh), lane)

    def _source(self, mesh: MeshData | MeshPath) -> MeshSource:
        up = self.encoder.bundle.views.up
        if isinstance(mesh, MeshPath):
            return MeshSource(mesh.path, within=mesh.within, up=up)
        return MeshSource(mesh.data, mesh.suffix, up=up)

    def look_at_views(self, views: Views) -> ViewPixels:
        return np.stack([pixels(Image.fromarray(view), self.encoder.bundle.image) for view in views])

    def check_features(self, side: Side, vectors: Sequence[Sequence[float]]) -> Sequence[Feature]:
        """Features of a side that were made elsewhere; what could not be compared is refused."""
        length = self.encoder.bundle.geometry.feature_dim
        for place, one in enumerate(vectors):
            if len(one) != length:
                sentence = f"vector {place} of {side} has {len(one)} numbers; features have {length} here"
                raise ApiError(422, "bad_vector", sentence)
        with np.errstate(over="ignore"):
            features = np.asarray(vectors, np.float32).reshape(-1, length)
        for place in np.flatnonzero(~usable(self.vectors(features))).tolist():
            sentence = f"vector {place} of {side} has no direction, or numbers that are too large"
            raise ApiError(422, "bad_vector", sentence)
        return list(features)

    def points(self, sample: PointSample) -> Observation:
        return Observation("points", 0, self.encoder.points([sample.rows()])[0])

    def shape(
        self, views: Sequence[Feature], sample: PointSample | None
    ) -> tuple[Feature, dict[Aspect, Feature]]:
        """One feature of a shape that is asked with; and those of its views and points, if it has points."""
        seen = [Observation("view", place, view) for place, view in enumerate(views)]
        alone = pool_side(seen, "shape")
        assert alone is not None
        if sample is None:
            return alone, {}
        points = self.points(sample)
        pooled = pool_side([*seen, points], "shape")
        assert pooled is not None
        return pooled, {"shape": alone, "points": points.feature}

    def cut_warnings(self, cut: tuple[bool, ...]) -> tuple[str, ...]:
        """A sentence if any text was longer than the encoder reads."""
        context = self.encoder.bundle.text.context
        sentence = f"text was cut at {context} tokens, which is all that this encoder reads"
        return (sentence,) if any(cut) else ()
