"""Turns pictures, meshes and texts into what an encoder takes, and is the space of a collection."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from app.settings import Settings
from multifold.bundle.bundle import Bundle, BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import decode, pixels
from multifold.types import Features, Metric, Pixels, Vector, Vectors
from renderers.cameras import rig
from renderers.contracts import LOOK, Views
from renderers.sandbox import Sandbox

ViewPixels: TypeAlias = UInt8[np.ndarray, "v s s 3"]


@dataclass(frozen=True)
class MeshData:
    """The bytes of a mesh, and the suffix that says how to read them."""

    data: bytes
    suffix: str


def open_configured_encoder(settings: Settings) -> Encoder:
    """The verified encoder that the settings name."""
    return open_drawing_encoder(settings.bundle, settings.threads)


def open_drawing_encoder(folder: Path, threads: int) -> Encoder:
    """The verified encoder of a bundle, if we can draw shapes the way it knows them."""
    encoder = open_encoder(folder, threads)
    _check_views(encoder.bundle)
    return encoder


def _check_views(bundle: Bundle) -> None:
    """Views drawn otherwise would be vectors that do not compare, without a word."""
    spec = bundle.views
    if spec.renderer != LOOK:
        raise BundleError(f"bundle {bundle.name} knows shapes by the look {spec.renderer}; here is {LOOK}")
    if len(rig(spec.rig)) != spec.views:
        raise BundleError(f"bundle {bundle.name} states {spec.views} views; its rig {spec.rig} has others")


def ignore_duration(_: float) -> None:
    """Nobody wants to hear."""


class ObservationEncoder:
    """Sees and reads the way the bundle says, and is the space of its collections. For several threads.

    Its encoder may be replaced by another one of the same `vector_id`, while it is at work.
    """

    def __init__(self, encoder: Encoder, sandbox: Sandbox, settings: Settings) -> None:
        self.encoder, self._sandbox, self._max_pixels = encoder, sandbox, settings.max_pixels
        self.rescored: Callable[[float], None] = ignore_duration  # hears how long each rescoring took

    @property
    def vector_id(self) -> str:
        """The name of the space."""
        return self.encoder.vector_id

    @property
    def dim(self) -> int:
        """Length of an index vector."""
        return self.encoder.dim

    @property
    def metric(self) -> Metric:
        """How index vectors are compared."""
        return self.encoder.metric

    @property
    def query_signs(self) -> Vector | None:
        """What a query vector is multiplied with."""
        return self.encoder.query_signs

    def vectors(self, features: Features) -> Vectors:
        """Index vectors of features."""
        return self.encoder.vectors(features)

    @property
    def rescores(self) -> bool:
        """Whether candidates are put in order by `rescore`."""
        return self.encoder.rescores

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        """The geometry's own similarity of queries to candidates."""
        start = time.perf_counter()
        scores = self.encoder.rescore(query, candidates)
        self.rescored(time.perf_counter() - start)
        return scores

    def look(self, data: bytes) -> Pixels:
        """A picture as the encoder takes it."""
        return self.square(self.picture(data))

    def picture(self, data: bytes) -> Image.Image:
        """A picture, if it is not too large."""
        return decode(data, self._max_pixels)

    def square(self, picture: Image.Image) -> Pixels:
        """What the encoder takes of it."""
        return pixels(picture, self.encoder.bundle.image)

    def draw(self, mesh: MeshData) -> Views:
        """The views that this encoder knows shapes by."""
        spec = self.encoder.bundle.views
        return self._sandbox.render(mesh.data, mesh.suffix, spec.rig, spec.size, spec.background, spec.up)

    def draw_in_place(self, path: Path, within: Path) -> Views:
        """The views of a file of our own, which may name others in the folder `within`."""
        spec = self.encoder.bundle.views
        drawing = self._sandbox.draw(path, None, spec.rig, spec.size, spec.background, spec.up, within)
        return drawing.views

    def look_at_views(self, views: Views) -> ViewPixels:
        """Views as the encoder takes them."""
        return np.stack([pixels(Image.fromarray(view), self.encoder.bundle.image) for view in views])

    def cut_warnings(self, cut: tuple[bool, ...]) -> tuple[str, ...]:
        """A sentence if any text was longer than the encoder reads."""
        context = self.encoder.bundle.text.context
        sentence = f"text was cut at {context} tokens, which is all that this encoder reads"
        return (sentence,) if any(cut) else ()
