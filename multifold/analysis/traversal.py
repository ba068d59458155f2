"""Traversals from the special to the general: a straight line to a root, and the captions near it.

Position 0 is the start of the line, 1 is the root. The nearest caption at each step is on the path, or none
where the root is nearer; its position is the first step where it is nearest. With a width K, only captions
whose cone contains the step are considered. Where the geometry has no cones, and so no origin, the line
starts from the index vector, so that both ends are measured in the same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from multifold.bundle.bundle import BundleError
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.scores import similarities
from multifold.types import STEPS_TO_ROOT, Feature, Features

ROOT_LABEL = "[ROOT]"


@dataclass(frozen=True)
class CaptionPool:
    """Captions that may be on a path, and their features."""

    texts: tuple[str, ...]
    features: Features

    def __add__(self, other: "CaptionPool") -> "CaptionPool":
        """Both; a caption of both counts once."""
        features = dict(zip((*other.texts, *self.texts), (*other.features, *self.features), strict=True))
        return CaptionPool(tuple(features), np.stack([*features.values()]))


@dataclass(frozen=True)
class PathCaption:
    """A caption of the pool, its position, and its index score there."""

    text: str
    position: float
    score: float


@dataclass(frozen=True)
class CaptionPath:
    """The captions between a feature and the root; `k` is the width of the cones that hold the steps."""

    k: float | None
    met: tuple[PathCaption, ...]


def caption_pool(encoder: Encoder, texts: Iterable[str]) -> CaptionPool:
    """A pool of these captions, each once."""
    once = tuple(dict.fromkeys(texts))
    return CaptionPool(once, encoder.texts(once).features)


def root_of(encoder: Encoder) -> Feature:
    """Where traversals end."""
    root = encoder.bundle.geometry.root
    if root is None:
        raise BundleError(f"bundle {encoder.bundle.name} states no root; export it anew from its checkpoint")
    return np.asarray(root, np.float32)


def line_to_root(encoder: Encoder, feature: Feature, steps: int = STEPS_TO_ROOT) -> Features:
    """Features from a thing to the root, evenly spaced."""
    if steps < 2:
        raise MultifoldError(f"a traversal has at least two steps, its ends, not {steps}")
    start = feature if encoder.entails else encoder.vectors(feature[None])[0]
    share = np.linspace(0, 1, steps, dtype=np.float32)[:, None]
    line: Features = (1 - share) * start + share * root_of(encoder)
    return line


def traverse(
    encoder: Encoder,
    feature: Feature,
    pool: CaptionPool,
    steps: int = STEPS_TO_ROOT,
    widths: Sequence[float | None] = (None,),
) -> tuple[CaptionPath, ...]:
    """The path for each width of the cones; None uses no cones."""
    line = line_to_root(encoder, feature, steps)
    captions = encoder.vectors(np.vstack([pool.features, root_of(encoder)]))
    scores = similarities(encoder, encoder.vectors(line), captions)
    outside = (None if k is None else encoder.entail(pool.features, line, k).T for k in widths)
    return tuple(_path(scores, far, pool.texts, k) for far, k in zip(outside, widths, strict=True))


def distances_to_root(
    encoder: Encoder, features: Features, root: Feature | None = None
) -> Float64[np.ndarray, " b"]:
    """How far from the root each feature lies, or from another one, as a chord in the space of index vectors.

    In Lorentz space it is 2/√c·sinh(√c·d/2), which grows with the distance d and is d near the root.
    """
    end = root_of(encoder) if root is None else root
    apart = encoder.vectors(features).astype(np.float64) - encoder.vectors(end[None])
    signs = 1.0 if encoder.query_signs is None else encoder.query_signs.astype(np.float64)
    chords: Float64[np.ndarray, " b"] = np.sqrt((signs * apart**2).sum(axis=1).clip(min=0))
    return chords


def _path(
    scores: Float32[np.ndarray, "s c"],
    outside: Float32[np.ndarray, "s p"] | None,
    texts: Sequence[str],
    k: float | None,
) -> CaptionPath:
    if outside is not None:
        scores = scores.copy()
        scores[:, :-1][outside > 0] = -np.inf  # the root, which is last, holds everything
    nearest = scores.argmax(axis=1)
    captions: dict[int, PathCaption] = {}
    for step, place in enumerate(nearest.tolist()):
        if place < len(texts) and place not in captions:
            captions[place] = PathCaption(texts[place], step / (len(scores) - 1), float(scores[step, place]))
    return CaptionPath(k, tuple(captions.values()))
