"""Classification of a labelled manifest: zero-shot, and by a linear probe."""

import argparse
from typing import Any

import numpy as np

from multifold import manifest
from multifold.errors import MultifoldError
from training.evaluate import protocols as measures
from training.evaluate import zero_shot
from training.evaluate.subject import EvaluatedEncoder, TestSet, encode_test_set
from training.retrieval.features import FeatureBank


def measure_classes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Classification by the items' labels; of shapes where there are any, else of photos."""
    labels = [measures.category_of(entry, args.label) for entry in test.entries]
    figures = {
        "zero-shot": zero_shot.classify(subject.encoder, subject.geometry, _classified_bank(test), labels)
    }
    return figures | (_measure_probes(subject, test, args) if args.probe else {})


def _classified_bank(test: TestSet) -> FeatureBank:
    return test.observed.shape if len(test.observed.shape) else test.observed.pictures


def _measure_probes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Each item by the mean of its index vectors; for checkpoints also by its features before projection."""
    from training.evaluate import linear_probe
    from training.retrieval.encoder import TorchEncoder

    sets = [_split(subject, args, "train"), _split(subject, args, "val"), test]
    means = [_classified_bank(one).pooled() for one in sets]
    named = [
        [measures.category_of(one.entries[owner], args.label) for owner in mean.owners]
        for one, mean in zip(sets, means, strict=True)
    ]
    known = sorted({label for some in named for label in some})
    right = [np.array([known.index(label) for label in some]) for some in named]

    def probed(features: list[np.ndarray]) -> dict[str, Any]:  # each as long as its set
        return linear_probe.fit_probe(*zip(features, right, strict=True))

    figures = {"linear probe, after": probed([subject.encoder.vectors(mean.features) for mean in means])}
    views = [one.views for one in sets if one.views is not None]
    if isinstance(subject.encoder, TorchEncoder) and len(views) == len(sets):
        live = subject.encoder
        before = [
            np.stack([linear_probe.features_before_projection(live, item).mean(axis=0) for item in some])
            for some in views
        ]
        figures["linear probe, before"] = probed(before)
    return figures


def _split(subject: EvaluatedEncoder, args: argparse.Namespace, split: str) -> TestSet:
    entries = list(manifest.read(args.manifest, split))
    if not entries:
        raise MultifoldError(f"--probe learns from the split {split!r}, which {args.manifest} lacks")
    return encode_test_set(subject, entries, args.cache)
