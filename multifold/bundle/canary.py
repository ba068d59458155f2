"""Canaries: stored inputs with their expected outputs, checked each time an encoder is opened.

They catch what hashes cannot: another library version that resizes, tokenizes or computes differently.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float32, Int64, UInt8
from PIL import Image

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError, Tolerance
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import pixels
from multifold.scores import apply_signs, index_scores
from multifold.types import Features

CANARY_FILE = "canary.npz"
CANARY_SECONDS = 120.0  # for all canaries of a bundle that is opened


@dataclass(frozen=True)
class CanaryAnswers:
    """An encoder's outputs for the canaries."""

    tokens: Int64[np.ndarray, "q t"]
    pixels: UInt8[np.ndarray, "g h w 3"]
    text_features: Float32[np.ndarray, "q n"]
    image_features: Float32[np.ndarray, "g n"]
    scores: Float32[np.ndarray, "q g"]
    point_features: Float32[np.ndarray, "c n"] | None = None  # where there is a point tower


def open_encoder(folder: Path, threads: int = 0) -> Encoder:
    """Load a bundle, verify its hashes, ask its canaries; refuses naming what differs.

    A graph may be made so that it never ends. It is stopped.
    """
    encoder = Encoder(bundles.load(folder), threads)
    timer = threading.Timer(CANARY_SECONDS, encoder.stop)
    timer.daemon = True
    timer.start()
    try:
        check(encoder)
    except BundleError as error:
        if not encoder.stopped:
            raise
        sentence = (
            f"does not answer its canaries within {CANARY_SECONDS:g} s; one of its graphs may never end"
        )
        raise BundleError(f"bundle {encoder.bundle.name} {sentence}") from error
    finally:
        timer.cancel()
    return encoder


def compute_answers(encoder: Encoder, texts: list[str], pictures: list[np.ndarray]) -> CanaryAnswers:
    """Put the canaries through every stage that a query goes through."""
    images = [Image.fromarray(picture) for picture in pictures]
    squares = np.stack([pixels(image, encoder.bundle.image) for image in images])
    text_features = encoder.texts(texts).features
    image_features = encoder.pixels(squares)
    queries = apply_signs(encoder.vectors(text_features), encoder.query_signs)
    scores = index_scores(queries, encoder.vectors(image_features), encoder.metric)
    spec = encoder.bundle.points
    return CanaryAnswers(
        tokens=encoder.tokenizer(texts).ids,
        pixels=squares,
        text_features=text_features,
        image_features=image_features,
        scores=scores,
        point_features=None if spec is None else encoder.points(made_clouds(spec.points)),
    )


def made_clouds(points: int) -> list[Float32[np.ndarray, "p 9"]]:
    """A cube and a flat cloud of so many points with normals and colours, the same on every machine."""
    steps = 2 * np.arange(3, 12, dtype=np.uint64) * 0x9E3779B1 | np.uint64(1)  # one step for each column
    turns = np.arange(1, points + 1, dtype=np.uint64)[:, None] * steps % (1 << 32) >> 24
    cube = (turns.astype(np.float32) - 128) / 256
    cube[:, 6:] += 0.5  # colours
    flat = cube * np.array([1, 0.25, *[1] * 7], np.float32)
    return [cube, flat]


def record(encoder: Encoder, texts: list[str], pictures: list[np.ndarray]) -> None:
    """Store the canaries with this encoder's answers in its bundle's folder."""
    answers = compute_answers(encoder, texts, pictures)
    arrays: dict[str, Any] = {f"picture_{i}": picture for i, picture in enumerate(pictures)}
    arrays |= {name: value for name, value in vars(answers).items() if value is not None}
    np.savez_compressed(encoder.bundle.path(CANARY_FILE), texts=np.array(texts), **arrays)


def check(encoder: Encoder) -> None:
    """Ask the canaries again; raise naming the stage whose answers differ."""
    texts, pictures, expected = read(encoder.bundle.path(CANARY_FILE))
    try:
        answers = compute_answers(encoder, texts, pictures)
    except Exception as error:  # graphs fail in many ways, all meaning: not these inputs
        raise BundleError(f"bundle {encoder.bundle.name} fails at its canaries: {error}") from error
    geometry = encoder.bundle.geometry
    vectors = encoder.vectors(answers.text_features)
    lengths = (answers.text_features.shape[1], answers.image_features.shape[1], vectors.shape[1])
    if lengths != (geometry.feature_dim, geometry.feature_dim, geometry.dim):
        stated = f"features of {geometry.feature_dim} and vectors of {geometry.dim}"
        raise BundleError(f"bundle {encoder.bundle.name} states {stated}, but its graphs give {lengths}")
    tolerance = encoder.bundle.tolerance(encoder.provider)
    if not np.array_equal(answers.tokens, expected.tokens):
        _refuse(encoder, "tokenizer", "its token ids")
    same_shape = answers.pixels.shape == expected.pixels.shape
    if not same_shape or np.abs(answers.pixels.astype(np.int16) - expected.pixels).max() > 1:
        _refuse(encoder, "image preprocessing", "its pixels")
    for tower in ("text", "image", "point"):
        features, wanted = (getattr(each, f"{tower}_features") for each in (answers, expected))
        if features is None:
            continue
        if wanted is None:
            raise BundleError(f"bundle {encoder.bundle.name} has no canaries of its {tower} tower")
        _check_features(encoder, f"{tower} tower", features, wanted, tolerance)
    _check_scores(encoder, answers.scores, expected.scores, tolerance)


def _check_features(
    encoder: Encoder, stage: str, actual: Features, expected: Features, limit: Tolerance
) -> None:
    if actual.shape != expected.shape or not np.isfinite(actual).all():
        _refuse(encoder, stage, "the shape of its features")
    says = np.any(actual != 0, axis=1) | np.any(expected != 0, axis=1)  # a text may say nothing, in both
    actual, expected = actual[says], expected[says]
    lengths, wanted = np.linalg.norm(actual, axis=1), np.linalg.norm(expected, axis=1)
    cosines = (actual * expected).sum(1) / np.maximum(lengths * wanted, 1e-12)
    if not cosines.min(initial=1.0) >= limit.cosine:  # so that NaN is refused too
        _refuse(encoder, stage, f"a cosine of {cosines.min():.6f} where {limit.cosine} is the least")
    if not np.abs(lengths / np.maximum(wanted, 1e-12) - 1).max(initial=0.0) <= limit.norm:
        _refuse(encoder, stage, "the length of its features")


def _check_scores(encoder: Encoder, actual: np.ndarray, expected: np.ndarray, limit: Tolerance) -> None:
    slack = 4 * (1 - limit.cosine) ** 0.5 * np.abs(expected).max() + limit.norm
    if actual.shape != expected.shape or not np.abs(actual - expected).max() <= slack:
        _refuse(encoder, "geometry", "its scores")
    agreement = float((actual.argmax(1) == expected.argmax(1)).mean())
    if agreement < limit.rank:
        _refuse(encoder, "geometry", f"a rank agreement of {agreement:.2f} where {limit.rank} is the least")


def _refuse(encoder: Encoder, stage: str, what: str) -> None:
    raise BundleError(
        f"bundle {encoder.bundle.name} answers its canaries wrongly on {encoder.provider}: "
        f"the {stage} differs in {what}. Its files are whole, so a library or the description is at fault."
    )


def read(path: Path) -> tuple[list[str], list[np.ndarray], CanaryAnswers]:
    """The canaries of a bundle, and the answers that they should get."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            pictures = [stored[f"picture_{i}"] for i in range(len(stored["pixels"]))]
            names = CanaryAnswers.__dataclass_fields__
            answers = {name: stored[name] for name in names if name != "point_features" or name in stored}
            return [str(text) for text in stored["texts"]], pictures, CanaryAnswers(**answers)
    except (AttributeError, BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise BundleError(f"{path} holds no canaries: {error}") from error
