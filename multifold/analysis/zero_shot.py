"""Zero-shot classification: the index vectors of labels, from prompts that name them.

A label is averaged as its geometry's paper does:

- one unit vector, the mean of unit vectors (clip and elliptic, as CLIP does);
- one vector, that of the mean feature (Euclidean; Lorentz, whose features are tangent vectors; clouds, whose
  features are what they embed as, left at their length);
- no vector at all: an item's scores with all prompts are averaged (oblique, whose paper averages distances;
  it matters for the geodesic).
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from multifold.bundle.encoder import EncodedTexts
from multifold.types import Features, Vectors, pool_mean

PROMPTS = ("{}", "a {}", "a photo of a {}", "a picture of a {}", "a rendering of a {}", "a 3D model of a {}")
PLACE = "{}"  # of the label in a prompt
UNIT = ("clip", "elliptic", "sphere")
APART = ("oblique", "oblique_multi", "oblique_geodesic")


@runtime_checkable
class PromptEncoder(Protocol):
    """What turns prompts into index vectors."""

    def texts(self, texts: Sequence[str]) -> EncodedTexts: ...

    def vectors(self, features: Features) -> Vectors: ...


def fill_prompts(label: str, prompts: Sequence[str] = PROMPTS) -> tuple[str, ...]:
    """The prompts of a label."""
    return tuple(prompt.replace(PLACE, label) for prompt in prompts)


def label_vectors(encoder: PromptEncoder, geometry: str, prompts: Sequence[Sequence[str]]) -> list[Vectors]:
    """Of each label, by its prompts, the vectors whose scores are averaged: one, or one for each prompt."""
    features = encoder.texts([prompt for some in prompts for prompt in some]).features
    parts = np.split(features, np.cumsum([len(some) for some in prompts])[:-1])
    if geometry in UNIT:
        parts = [some / np.maximum(np.linalg.norm(some, axis=1, keepdims=True), 1e-12) for some in parts]
    if geometry not in APART:
        parts = [pool_mean(some)[None] for some in parts]
    vectors = encoder.vectors(np.concatenate(parts))
    return np.split(vectors, np.cumsum([len(some) for some in parts])[:-1])
