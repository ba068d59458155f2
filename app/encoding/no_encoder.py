"""What stands in the place of an encoder where a collection has none: its vectors come from outside."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from app.errors import ApiError
from index.plain_space import PlainSpace
from multifold.bundle.bundle import Bundle, GeometrySpec, ViewSpec
from multifold.bundle.encoder import EncodedTexts, Encoder
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.text_reader import packaged_reader
from multifold.bundle.tokenizer import TextSpec
from multifold.types import Features, PixelBatch, Side, Vectors
from renderers.contracts import LOOK

NAME = "none"
REFUSAL = (
    "this collection has no encoder: give a vector for each caption, photo and shape, and ask with a vector, "
    "an item, or for words"
)


class NoEncoderError(ApiError):
    """Something needs an encoder where there is none."""

    def __init__(self) -> None:
        super().__init__(422, "no_encoder", REFUSAL)


class NoEncoder(Encoder):
    """The space of a collection without an encoder; it refuses to encode."""

    encodes = False

    def __init__(self, space: PlainSpace) -> None:
        self.bundle = Bundle(
            folder=Path(NAME),
            name=NAME,
            about="no encoder: items and queries bring their vectors",
            geometry=GeometrySpec(space.comparison, space.dim, space.dim, space.metric),
            image=ImageSpec(size=1),
            text=TextSpec("none", context=2, start=None, end=0, pad=0, length="fixed"),
            views=ViewSpec(NAME, size=1, background="white", up="auto", views=1, renderer=LOOK),
            tolerances={},
        )
        self.provider = NAME
        self.vector_id = space.vector_id
        self.dim = space.dim
        self.metric = space.metric
        self.query_signs = None
        self.sees: Mapping[Side, float] = {}
        self.alike: Mapping[Side, float] = {}
        self.entails = self.rescores = False
        self.lanes = 1
        self.reader = packaged_reader()
        self._space = space

    def vectors(self, features: Features) -> Vectors:
        return self._space.vectors(features)

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """Features of no texts; there are none of others."""
        if texts:
            raise NoEncoderError
        return EncodedTexts(np.empty((0, self.dim), np.float32), ())

    def pixels(self, batch: PixelBatch) -> Features:  # noqa: ARG002 (as encoders have it)
        """Refused."""
        raise NoEncoderError
