"""How good explanations are: deleting first what they call important must lower the score faster than chance.

The figure is the mean score left while the highest places are deleted one after the other, as a share of the
whole score: less is better. The baselines are random orders, over all places and over those that are not
blank. Places are cells of a picture, or words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from multifold import manifest
from multifold.analysis.explanation import CELLS, WHITE, Explainer
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.tokenizer import clean
from multifold.errors import MultifoldError
from multifold.scores import apply_signs, index_scores
from multifold.types import ExplanationMethod, Pixels, Vector
from training.data.views import load_views

Curve = Float64[np.ndarray, " k"]


@dataclass(frozen=True)
class MatchingPair:
    """A matching picture and text, with their index vectors, signs applied."""

    picture: Pixels
    text: str
    picture_vector: Vector
    text_vector: Vector


@dataclass(frozen=True)
class DeletionCurves:
    """Scores during the deletion, by method, as shares of the whole score at even steps."""

    curves: Mapping[str, Sequence[float]]

    @property
    def areas(self) -> dict[str, float]:
        """The mean score left, by method."""
        return {name: round(float(np.mean(curve)), 4) for name, curve in self.curves.items()}


def matching_pairs(encoder: Encoder, pictures: Sequence[Pixels], texts: Sequence[str]) -> list[MatchingPair]:
    sides = (encoder.pixels(np.stack(pictures)), encoder.texts(texts).features)
    vectors = [apply_signs(encoder.vectors(features), encoder.query_signs) for features in sides]
    return [MatchingPair(*both) for both in zip(pictures, texts, *vectors, strict=True)]


def measure_methods(
    bundle: Path, path: Path, split: str | None, most: int, cache: Path
) -> dict[str, dict[ExplanationMethod, float]]:
    """Print and return the deletion areas of every method on matches of a manifest, by side."""
    explainer = Explainer(open_encoder(bundle))
    described = [one for one in manifest.read(path, split) if one.texts and (one.mesh or one.images)]
    if not (entries := described[:most]):
        raise MultifoldError(f"{path} has no item with something to see and something said of it")
    spec = explainer.encoder.bundle
    views = load_views(entries, spec.views, spec.image, cache)
    places = np.random.default_rng(0).integers(0, views.shape[1], len(entries))
    pictures = [np.array(item[place]) for item, place in zip(views, places, strict=True)]
    pairs = matching_pairs(explainer.encoder, pictures, [one.texts[0] for one in entries])
    areas = {}
    for side, curves in (("image", delete_cells(explainer, pairs)), ("text", delete_words(explainer, pairs))):
        figures = ", ".join(f"{name} {area}" for name, area in curves.areas.items())
        print(f"{side}: score left of {len(pairs)} matches, {figures}")
        methods = explainer.methods("text" if side == "text" else "image")
        areas[side] = {name: curves.areas[name] for name in methods}
    return areas


def delete_cells(explainer: Explainer, pairs: Sequence[MatchingPair], seed: int = 0) -> DeletionCurves:
    """Deletion of cells of pictures, most important first, half of them in all."""
    rng, steps = np.random.default_rng(seed), CELLS * CELLS // 2
    curves: dict[str, list[Curve]] = {}
    for pair in pairs:
        ink = cells(np.abs(pair.picture.astype(np.float64) - WHITE).mean(2), CELLS)
        maps: dict[str, np.ndarray] = {}
        for method in explainer.methods("image"):
            grid = explainer.picture(pair.picture, pair.text_vector, method).grid
            maps[method] = cells(np.kron(grid, np.ones((CELLS, CELLS))), CELLS)
        maps["random"] = rng.random(ink.shape)
        maps["random, not blank"] = np.where(ink > 1, maps["random"], -1)
        for key, importance in maps.items():
            curve = _without_cells(explainer.encoder, pair, np.argsort(-importance, None)[:steps].tolist())
            curves.setdefault(key, []).append(curve)
    return _mean(curves)


def delete_words(explainer: Explainer, pairs: Sequence[MatchingPair], seed: int = 0) -> DeletionCurves:
    """Deletion of words, most important first, until one is left; curves are brought to one length."""
    rng = np.random.default_rng(seed)
    curves: dict[str, list[Curve]] = {}
    for pair in pairs:
        words = clean(pair.text, explainer.encoder.bundle.text.cleaning).split()
        shares: dict[str, np.ndarray] = {}
        for method in explainer.methods("text"):
            explained = explainer.text(pair.text, pair.picture_vector, method)
            shares[method] = np.array([share for _, share in explained.words])
        shares["random"] = rng.random(len(words))
        for key, values in shares.items():
            order = np.argsort(-values, kind="stable")[:-1].tolist()
            gone = [set(order[:count]) for count in range(len(order) + 1)]
            left = [" ".join(word for at, word in enumerate(words) if at not in out) for out in gone]
            features = explainer.encoder.texts(left).features
            curve = _left(explainer.encoder, features, pair.picture_vector)
            even = np.interp(np.linspace(0, 1, 11), np.linspace(0, 1, len(curve)), curve)
            curves.setdefault(key, []).append(even)
    return _mean(curves)


def cells(values: Float64[np.ndarray, "h w"], side: int) -> Float64[np.ndarray, "y x"]:
    """Means over an even grid of that many cells a side."""
    rows, columns = (np.linspace(0, length, side + 1).round().astype(int) for length in values.shape)
    summed = np.add.reduceat(np.add.reduceat(values, rows[:-1], 0), columns[:-1], 1)
    means: Float64[np.ndarray, "y x"] = summed / np.outer(np.diff(rows), np.diff(columns))
    return means


def _without_cells(encoder: Encoder, pair: MatchingPair, order: Sequence[int]) -> Curve:
    edges = np.linspace(0, len(pair.picture), CELLS + 1).round().astype(int)
    variants = np.repeat(pair.picture[None], 1 + len(order), axis=0)
    for step, place in enumerate(order, 1):
        y, x = divmod(place, CELLS)
        variants[step:, edges[y] : edges[y + 1], edges[x] : edges[x + 1]] = WHITE
    return _left(encoder, encoder.pixels(variants), pair.text_vector)


def _left(encoder: Encoder, features: np.ndarray, other: Vector) -> Curve:
    left: Curve = index_scores(other[None], encoder.vectors(features), encoder.metric)[0].astype(np.float64)
    return left


def _mean(curves: Mapping[str, Sequence[Curve]]) -> DeletionCurves:
    """Mean curves, as shares of the mean undeleted score."""
    means = {name: np.mean(ones, axis=0) for name, ones in curves.items()}
    return DeletionCurves({name: (curve / abs(curve[0])).round(4).tolist() for name, curve in means.items()})
