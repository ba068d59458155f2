"""Traversals of many things, as EuCLIP and MERU count them, and how far each side lies from the root."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from multifold.analysis.hierarchy import ClassTree, HierarchyMeasures, measure
from multifold.analysis.traversal import STEPS, CaptionPath, CaptionPool, distances_to_root, traverse
from multifold.bundle.encoder import Encoder
from multifold.scores import similarities
from multifold.types import Features

BINS = 40
PROMPTS = ("a {}", "this is a {}", "there is a {}", "a picture of a {}")


@dataclass(frozen=True)
class DistanceHistogram:
    """Shares of one side's things in equal bins of their distance to the root."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]
    mean: float
    deviation: float


def mean_captions_met(
    encoder: Encoder,
    features: Features,
    pool: CaptionPool,
    widths: Sequence[float | None],
    steps: int = STEPS,
) -> dict[float | None, float]:
    """How many captions are met between a thing and the root, on average, for each width of the cones."""
    found = [traverse(encoder, feature, pool, steps, widths) for feature in features]
    return {k: float(np.mean([len(paths[place].met) for paths in found])) for place, k in enumerate(widths)}


def histograms(
    encoder: Encoder, sides: Mapping[str, Features], bins: int = BINS
) -> dict[str, DistanceHistogram]:
    """How far each side lies from the root, in bins that all sides share."""
    apart = {side: distances_to_root(encoder, features) for side, features in sides.items()}
    most = max(float(values.max()) for values in apart.values())
    return {side: _histogram(values, bins, most) for side, values in apart.items()}


def classify(encoder: Encoder, features: Features, names: Sequence[str]) -> list[str]:
    """The class whose prompts, as one, are nearest to each thing."""
    said = [encoder.texts([prompt.format(name) for prompt in PROMPTS]).features.mean(0) for name in names]
    nearest = similarities(encoder, encoder.vectors(features), encoder.vectors(np.stack(said))).argmax(1)
    return [names[place] for place in nearest]


def hierarchy(
    encoder: Encoder, features: Features, true: Sequence[str], tree: ClassTree
) -> HierarchyMeasures:
    """How wrong the wrong classes are; the classes are those that there are things of."""
    return measure(tree, classify(encoder, features, sorted(set(true))), true)


def as_json(path: CaptionPath) -> dict[str, Any]:
    """A path as plain data, from the special to the general."""
    return asdict(path)


def _histogram(values: Float64[np.ndarray, " b"], bins: int, most: float) -> DistanceHistogram:
    counts, edges = np.histogram(values, bins, (0, most))
    shares = counts / counts.sum()
    return DistanceHistogram(
        tuple(edges.tolist()), tuple(shares.tolist()), float(values.mean()), float(values.std())
    )
