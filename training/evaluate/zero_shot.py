"""Zero-shot classification: which class's prompts an item is nearest to, averaged as its paper does.

A class is said in several ways, the prompts. Of them become:

- one unit vector, the mean of unit vectors (clip and elliptic, as CLIP does);
- one vector, that of the mean feature (Euclidean; Lorentz, whose features are tangent vectors; clouds, whose
  features are what they embed as, left at their length);
- no vector at all: an item's scores with all prompts are averaged (oblique, whose paper averages distances;
  it matters for the geodesic).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from multifold.metrics import bootstrap
from multifold.scores import similarities
from multifold.types import Features, pool_mean
from training.retrieval.directions import RetrievalEncoder
from training.retrieval.features import FeatureBank

PROMPTS = ("{}", "a {}", "a photo of a {}", "a picture of a {}", "a rendering of a {}", "a 3D model of a {}")
UNIT = ("clip", "elliptic", "sphere")
APART = ("oblique", "oblique_multi", "oblique_geodesic")


def class_scores(
    encoder: RetrievalEncoder,
    geometry: str,
    asked: Features,
    classes: Sequence[str],
    prompts: Sequence[str] = PROMPTS,
) -> Float32[np.ndarray, "b c"]:
    said = [encoder.texts([prompt.format(name) for prompt in prompts]).features for name in classes]
    vectors = encoder.vectors(asked)
    if geometry in APART:
        spread = _scores(encoder, np.concatenate(said), vectors)
        apart: Float32[np.ndarray, "b c"] = spread.reshape(len(asked), len(classes), len(prompts)).mean(
            axis=2
        )
        return apart
    features = np.stack([pool_mean(_units(some) if geometry in UNIT else some) for some in said])
    return _scores(encoder, features, vectors)


def _scores(encoder: RetrievalEncoder, prompts: Features, items: np.ndarray) -> np.ndarray:
    """Texts are the query side."""
    return similarities(encoder, encoder.vectors(prompts), items).T


def _units(features: Features) -> Features:
    units: Features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return units


def classify(
    encoder: RetrievalEncoder,
    geometry: str,
    items: FeatureBank,
    labels: Sequence[str],
    prompts: Sequence[str] = PROMPTS,
) -> dict[str, Any]:
    """Accuracy over items by their mean feature, and over classes, each counting once."""
    classes = sorted(set(labels))
    asked = items.pooled()
    right = np.array([classes.index(labels[owner]) for owner in asked.owners])
    scores = class_scores(encoder, geometry, asked.features, classes, prompts)
    counts = {
        "classes": len(classes),
        "items": len(right),
        "prompts": len(prompts),
        "chance": 1 / len(classes),
    }
    return counts | accuracy(scores, right)


def accuracy(scores: Float32[np.ndarray, "b c"], right: Int64[np.ndarray, " b"]) -> dict[str, Any]:
    """The share whose best class is right, among the first five, and the mean over classes."""
    own = np.take_along_axis(scores, right[:, None], axis=1)
    ahead = (scores >= own).sum(axis=1)  # ties count against us
    hits = (ahead == 1).astype(np.float64)
    shares = [hits[right == one].mean() for one in np.unique(right)]
    values = (hits.mean(), *bootstrap(hits))
    return {
        "accuracy": [round(float(value), 4) for value in values],
        "top5": round(float((ahead <= 5).mean()), 4),
        "per_class": round(float(np.mean(shares)), 4),
    }
