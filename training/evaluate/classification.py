"""Classification of a labelled manifest: zero-shot (see zero_shot.py), and by a linear probe."""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32

from multifold import manifest
from multifold.analysis.zero_shot import PROMPTS, fill_prompts, label_vectors
from multifold.errors import MultifoldError, needs_extra
from multifold.scores import similarities
from multifold.types import Features
from training.evaluate.protocols import accuracy, category_of
from training.evaluate.subject import EvaluatedEncoder, TestSet, encode_test_set
from training.retrieval.directions import RetrievalEncoder
from training.retrieval.features import FeatureBank


def measure_classes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Classification by the items' labels; of shapes where there are any, else of photos."""
    labels = [category_of(entry, args.label) for entry in test.entries]
    measured = {"zero-shot": classify(subject.encoder, subject.geometry, _classified_bank(test), labels)}
    return measured | (_measure_probes(subject, test, args) if args.probe else {})


def classify(
    encoder: RetrievalEncoder,
    geometry: str,
    items: FeatureBank,
    labels: Sequence[str],
    prompts: Sequence[str] = PROMPTS,
) -> dict[str, Any]:
    """Accuracy over items by their mean feature, and over classes, each counting once."""
    classes = sorted(set(labels))
    pooled = items.pooled()
    right = np.array([classes.index(labels[owner]) for owner in pooled.owners])
    scores = class_scores(encoder, geometry, pooled.features, classes, prompts)
    counts = {
        "classes": len(classes),
        "items": len(right),
        "prompts": len(prompts),
        "chance": 1 / len(classes),
    }
    return counts | accuracy(scores, right)


def class_scores(
    encoder: RetrievalEncoder,
    geometry: str,
    items: Features,
    classes: Sequence[str],
    prompts: Sequence[str] = PROMPTS,
) -> Float32[np.ndarray, "b c"]:
    """Scores of items with classes; the prompts are the query side."""
    queries = label_vectors(encoder, geometry, [fill_prompts(name, prompts) for name in classes])
    scores = similarities(encoder, np.concatenate(queries), encoder.vectors(items)).T
    means: Float32[np.ndarray, "b c"] = scores.reshape(len(items), len(classes), -1).mean(axis=2)
    return means


def _classified_bank(test: TestSet) -> FeatureBank:
    return test.observed.shape if len(test.observed.shape) else test.observed.pictures


def _measure_probes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Each item by the mean of its index vectors; for checkpoints also by its features before projection."""
    with needs_extra("train"):
        from training.evaluate.linear_probe import fit_probe

    sets = [_split(subject, args, "train"), _split(subject, args, "val"), test]
    means = [_classified_bank(one).pooled() for one in sets]
    named = [
        [category_of(one.entries[owner], args.label) for owner in mean.owners]
        for one, mean in zip(sets, means, strict=True)
    ]
    known = sorted({label for some in named for label in some})
    right = [np.array([known.index(label) for label in some]) for some in named]

    def probed(features: list[np.ndarray]) -> dict[str, Any]:  # each as long as its set
        return fit_probe(*zip(features, right, strict=True))

    figures = {"linear probe, after": probed([subject.encoder.vectors(mean.features) for mean in means])}
    views = [one.views for one in sets if one.views is not None]
    if (read := subject.before_projection) is not None and len(views) == len(sets):
        before = [np.stack([read(item).mean(axis=0) for item in some]) for some in views]
        figures["linear probe, before"] = probed(before)
    return figures


def _split(subject: EvaluatedEncoder, args: argparse.Namespace, split: str) -> TestSet:
    entries = list(manifest.read(args.manifest, split))
    if not entries:
        raise MultifoldError(f"--probe learns from the split {split!r}, which {args.manifest} lacks")
    return encode_test_set(subject, entries, args.cache)
