"""Classification on a labelled manifest: zero-shot, and a linear probe from its own train and val splits."""

import argparse
from typing import Any

import numpy as np

from multifold import manifest
from multifold.errors import MultifoldError
from training.evaluate import measured as measures
from training.evaluate import zeroshot
from training.evaluate.looking import TestSet, look
from training.evaluate.observed import Bank
from training.evaluate.subject import Subject


def measured(subject: Subject, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """What the items' labels allow; shapes where there are any, else photos."""
    labels = [measures.category(entry, args.label) for entry in test.entries]
    told = {"zero-shot": zeroshot.classify(subject.encoder, subject.geometry, _seen(test), labels)}
    return told | (_probed(subject, test, args) if args.probe else {})


def _seen(test: TestSet) -> Bank:
    return test.observed.shape if len(test.observed.shape) else test.observed.pictures


def _probed(subject: Subject, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Each item by its mean: of index vectors; of checkpoints also of what stands before the projection."""
    from training.evaluate import probe
    from training.evaluate.live import LiveEncoder

    sets = [_split(subject, args, "train"), _split(subject, args, "val"), test]
    means = [_seen(one).pooled() for one in sets]
    named = [
        [measures.category(one.entries[owner], args.label) for owner in mean.owners]
        for one, mean in zip(sets, means, strict=True)
    ]
    known = sorted({label for some in named for label in some})
    right = [np.array([known.index(label) for label in some]) for some in named]

    def probed(features: list[np.ndarray]) -> dict[str, Any]:  # each as long as its set
        return probe.probe(*zip(features, right, strict=True))

    told = {"linear probe, after": probed([subject.encoder.vectors(mean.features) for mean in means])}
    views = [one.views for one in sets if one.views is not None]
    if isinstance(subject.encoder, LiveEncoder) and len(views) == len(sets):
        live = subject.encoder
        before = [np.stack([probe.before(live, item).mean(axis=0) for item in some]) for some in views]
        told["linear probe, before"] = probed(before)
    return told


def _split(subject: Subject, args: argparse.Namespace, split: str) -> TestSet:
    entries = list(manifest.read(args.manifest, split))
    if not entries:
        raise MultifoldError(f"--probe learns from the split {split!r}, which {args.manifest} lacks")
    return look(subject, entries, args.cache)
