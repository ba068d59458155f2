"""Is an explanation true? What it calls important is deleted first, and the score must fall faster than else.

The figure is the mean score left while the highest places are deleted one after the other, as a share of the
whole score: less is better. Random orders are the bar, once over all places and once over those that are not
blank anyway. Places are cells of a picture, or words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from multifold.analysis.explanation import CELLS, WHITE, Explainer
from multifold.bundle.encoder import Encoder
from multifold.bundle.tokenizer import clean
from multifold.scores import apply_signs, index_scores
from multifold.types import ExplanationMethod, Pixels, Vector

Curve = Float64[np.ndarray, " k"]


@dataclass(frozen=True)
class MatchingPair:
    """A picture and a text that belong together, and their index vectors, signs applied."""

    seen: Pixels
    text: str
    seen_vector: Vector
    text_vector: Vector


@dataclass(frozen=True)
class DeletionCurves:
    """Scores as more and more is deleted, by method; shares of the whole score at even steps."""

    curves: Mapping[str, Sequence[float]]

    @property
    def areas(self) -> dict[str, float]:
        """The mean score left, by method."""
        return {name: round(float(np.mean(curve)), 4) for name, curve in self.curves.items()}


def matching_pairs(encoder: Encoder, seen: Sequence[Pixels], texts: Sequence[str]) -> list[MatchingPair]:
    """Pictures with their texts."""
    sides = (encoder.pixels(np.stack(seen)), encoder.texts(texts).features)
    vectors = [apply_signs(encoder.vectors(features), encoder.query_signs) for features in sides]
    return [MatchingPair(*both) for both in zip(seen, texts, *vectors, strict=True)]


def delete_cells(explainer: Explainer, found: Sequence[MatchingPair], seed: int = 0) -> DeletionCurves:
    """Deletion of cells of pictures, most important first, half of them in all."""
    rng, steps = np.random.default_rng(seed), CELLS * CELLS // 2
    curves: dict[str, list[Curve]] = {}
    for match in found:
        ink = cells(np.abs(match.seen.astype(np.float64) - WHITE).mean(2), CELLS)
        orders = {
            name: explainer.picture(match.seen, match.text_vector, name).grid for name in _all(explainer)
        }
        maps: dict[str, np.ndarray] = {
            name: cells(np.kron(grid, np.ones((CELLS, CELLS))), CELLS) for name, grid in orders.items()
        }
        maps["random"] = rng.random(ink.shape)
        maps["random, not blank"] = np.where(ink > 1, maps["random"], -1)
        for name, shares in maps.items():
            curve = _without_cells(explainer.encoder, match, np.argsort(-shares, None)[:steps].tolist())
            curves.setdefault(name, []).append(curve)
    return _mean(curves)


def delete_words(explainer: Explainer, found: Sequence[MatchingPair], seed: int = 0) -> DeletionCurves:
    """Deletion of words, most important first, until one is left; curves are brought to one length."""
    rng = np.random.default_rng(seed)
    curves: dict[str, list[Curve]] = {}
    for match in found:
        words = clean(match.text, explainer.encoder.bundle.text.cleaning).split()
        told = {name: explainer.text(match.text, match.seen_vector, name) for name in _all(explainer, "text")}
        shares: dict[str, np.ndarray] = {
            name: np.array([share for _, share in one.words]) for name, one in told.items()
        }
        shares["random"] = rng.random(len(words))
        for name, values in shares.items():
            order = np.argsort(-values, kind="stable")[:-1].tolist()
            curve = _without_words(explainer.encoder, match, words, order)
            even = np.interp(np.linspace(0, 1, 11), np.linspace(0, 1, len(curve)), curve)
            curves.setdefault(name, []).append(even)
    return _mean(curves)


def cells(values: Float64[np.ndarray, "h w"], side: int) -> Float64[np.ndarray, "y x"]:
    """Means over an even grid of that many cells a side."""
    rows, columns = (np.linspace(0, length, side + 1).round().astype(int) for length in values.shape)
    summed = np.add.reduceat(np.add.reduceat(values, rows[:-1], 0), columns[:-1], 1)
    means: Float64[np.ndarray, "y x"] = summed / np.outer(np.diff(rows), np.diff(columns))
    return means


def _all(explainer: Explainer, side: str = "image") -> tuple[ExplanationMethod, ...]:
    return explainer.methods("text" if side == "text" else "image")


def _without_cells(encoder: Encoder, match: MatchingPair, order: Sequence[int]) -> Curve:
    edges = np.linspace(0, len(match.seen), CELLS + 1).round().astype(int)
    variants = np.repeat(match.seen[None], 1 + len(order), axis=0)
    for step, place in enumerate(order, 1):
        y, x = divmod(place, CELLS)
        variants[step:, edges[y] : edges[y + 1], edges[x] : edges[x + 1]] = WHITE
    return _left(encoder, encoder.pixels(variants), match.text_vector)


def _without_words(
    encoder: Encoder, match: MatchingPair, words: Sequence[str], order: Sequence[int]
) -> Curve:
    gone = [set(order[:count]) for count in range(len(order) + 1)]
    variants = [" ".join(word for place, word in enumerate(words) if place not in out) for out in gone]
    return _left(encoder, encoder.texts(variants).features, match.seen_vector)


def _left(encoder: Encoder, features: np.ndarray, other: Vector) -> Curve:
    left: Curve = index_scores(other[None], encoder.vectors(features), encoder.metric)[0].astype(np.float64)
    return left


def _mean(curves: Mapping[str, Sequence[Curve]]) -> DeletionCurves:
    """Mean curves, as shares of the mean score of what is whole."""
    means = {name: np.mean(found, axis=0) for name, found in curves.items()}
    return DeletionCurves({name: (curve / abs(curve[0])).round(4).tolist() for name, curve in means.items()})
