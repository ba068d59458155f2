"""Classification of a labelled manifest: zero-shot (see zero_shot.py), and by a linear probe."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from multifold import manifest
from multifold.analysis.zero_shot import PLACE, PROMPTS, fill_prompts, label_vectors
from multifold.errors import MultifoldError, needs_extra
from multifold.files import textfile
from multifold.scores import similarities
from multifold.types import Features, PixelBatch
from training.data.views import open_picture
from training.evaluate.protocols import accuracy, category_of
from training.evaluate.subject import EvaluatedEncoder, TestSet, encode_test_set
from training.retrieval.directions import RetrievalEncoder
from training.retrieval.features import FeatureBank


def measure_classes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Classification by the items' labels; of shapes where there are any, else of photos."""
    measured = {"zero-shot": measure_zero_shot(subject, test, args)}
    return measured | (_measure_probes(subject, test, args) if args.probe else {})


def measure_zero_shot(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    labels = [category_of(entry, args.label) for entry in test.entries]
    prompts = PROMPTS if args.prompts is None else read_prompts(args.prompts)
    items, apart = _classified_bank(test), args.average_distances
    return classify(subject.encoder, subject.geometry, items, labels, prompts, apart=apart)


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts of a class, a line each."""
    prompts = tuple(textfile.lines(path))
    if lacking := next((prompt for prompt in prompts if PLACE not in prompt), None):
        raise MultifoldError(f"{path}: the prompt {lacking!r} has no {PLACE} in the class's place")
    if not prompts:
        raise MultifoldError(f"{path} has no prompts: it needs one a line, such as 'a photo of a {PLACE}'")
    return prompts


def mean_classes(measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, float]]:
    """Of several manifests, the mean of each kind of classification."""
    means: dict[str, dict[str, float]] = {}
    for kind in next(iter(measured.values())):
        accuracies = [one[kind]["accuracy"][0] for one in measured.values()]
        per_class = [one[kind]["per_class"] for one in measured.values()]
        both = {"accuracy": accuracies, "per_class": per_class}
        means[kind] = {name: round(float(np.mean(values)), 4) for name, values in both.items()}
    return means


def classify(
    encoder: RetrievalEncoder,
    geometry: str,
    items: FeatureBank,
    labels: Sequence[str],
    prompts: Sequence[str] = PROMPTS,
    *,
    apart: bool = False,
) -> dict[str, Any]:
    """Accuracy over items by their mean feature, and over classes, each counting once."""
    classes = sorted(set(labels))
    pooled = items.pooled()
    right = np.array([classes.index(labels[owner]) for owner in pooled.owners])
    scores = class_scores(encoder, geometry, pooled.features, classes, prompts, apart=apart)
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
    *,
    apart: bool = False,
) -> Float32[np.ndarray, "b c"]:
    """Scores of items with classes; the prompts are the query side. `apart`: distances are averaged."""
    averaged_as = "oblique" if apart else geometry
    queries = label_vectors(encoder, averaged_as, [fill_prompts(name, prompts) for name in classes])
    scores = similarities(encoder, np.concatenate(queries), encoder.vectors(items)).T
    if apart and encoder.metric == "l2" and not encoder.rescores:  # whose scores are squares
        scores = -np.sqrt(np.maximum(-scores, 0))
    means: Float32[np.ndarray, "b c"] = scores.reshape(len(items), len(classes), -1).mean(axis=2)
    return means


def _classified_bank(test: TestSet) -> FeatureBank:
    return test.observed.shape if len(test.observed.shape) else test.observed.pictures


def _measure_probes(subject: EvaluatedEncoder, test: TestSet, args: argparse.Namespace) -> dict[str, Any]:
    """Each item by its index vector; for checkpoints also by the mean of what the head reads of it."""
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
    if (read := subject.before_projection) is not None:
        before = [np.stack([read(item).mean(axis=0) for item in _pictures(subject, one)]) for one in sets]
        figures["linear probe, before"] = probed(before)
    return figures


def _pictures(subject: EvaluatedEncoder, test: TestSet) -> Iterator[PixelBatch]:
    """Of each item that is classified, its views, or its photos where no item has views."""
    if test.views is not None:
        yield from test.views
        return
    for entry in test.entries:
        if entry.images:
            yield np.stack([open_picture(path, subject.image) for path in entry.images])


def _split(subject: EvaluatedEncoder, args: argparse.Namespace, split: str) -> TestSet:
    entries = list(manifest.read(args.manifest, split))
    if not entries:
        raise MultifoldError(f"--probe learns from the split {split!r}, which {args.manifest} lacks")
    return encode_test_set(subject, entries, args.cache)
