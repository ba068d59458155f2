"""Which parts of a picture or a text made its index score with another vector, by occlusion.

A share is how much the score falls when a place is blank or a word is missing; a negative share is evidence
against the match. Any encoder can be asked so. `other` is the index vector of the other side, signs applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32

from multifold.bundle.encoder import Encoder
from multifold.bundle.tokenizer import clean
from multifold.errors import MultifoldError
from multifold.scores import index_scores
from multifold.types import ExplanationMethod, Pixels, Vector

Colour: TypeAlias = Sequence[int]
CELLS = 7  # along a side of a picture that is covered cell by cell
WHITE = (255, 255, 255)


class ExplanationError(MultifoldError):
    """A way to explain that this encoder does not know."""


@dataclass(frozen=True)
class HeatMap:
    """The share of each place of a picture as the encoder sees it: its middle, or all of it squashed."""

    method: ExplanationMethod
    grid: Float32[np.ndarray, "y x"]


@dataclass(frozen=True)
class WordShares:
    """The share of each word of a text, as the encoder reads it."""

    method: ExplanationMethod
    words: tuple[tuple[str, float], ...]


def check_method(method: ExplanationMethod | None) -> None:
    """Refuse a method that needs a gradient or the points of a cloud."""
    if method not in (None, "occlusion"):
        raise ExplanationError(f"a bundle explains by occlusion, not by {method}: explain its checkpoint")


def occlude_picture(encoder: Encoder, square: Pixels, other: Vector, blank: Colour = WHITE) -> HeatMap:
    """The shares of a picture's cells; `blank` is the colour of nothing."""
    places = np.linspace(0, len(square), CELLS + 1).round().astype(int).tolist()
    edges = [slice(*both) for both in pairwise(places)]
    variants = np.repeat(square[None], 1 + CELLS**2, axis=0)
    for variant, (rows, columns) in zip(variants[1:], product(edges, edges), strict=True):
        variant[rows, columns] = blank
    losses = _losses(encoder, encoder.pixels(variants), other)
    return HeatMap("occlusion", losses.reshape(CELLS, CELLS))


def occlude_text(encoder: Encoder, text: str, other: Vector) -> WordShares:
    """The shares of a text's words."""
    words = clean(text, encoder.bundle.text.cleaning).split()
    variants = [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]
    losses = _losses(encoder, encoder.texts([" ".join(words), *variants]).features, other)
    return WordShares("occlusion", tuple(zip(words, losses.tolist(), strict=True)))


def isolate_part(vector: Vector, place: int, parts: int) -> Vector:
    """An index vector of m parts with all but one of them blank."""
    if len(vector) % parts or not 0 <= place < parts:
        raise ExplanationError(f"there is no token {place} here: {parts} are compared pair by pair, from 0")
    length = len(vector) // parts
    return np.where(np.arange(len(vector)) // length == place, vector, np.float32(0))


def token_shares(ours: Vector, theirs: Vector, parts: int) -> Float32[np.ndarray, " m"]:
    """The share of each pair of tokens of two index vectors; they sum to the inner product."""
    shares: Float32[np.ndarray, " m"] = (ours * theirs).reshape(parts, -1).sum(1)
    return shares


def _losses(
    encoder: Encoder, features: Float32[np.ndarray, "b n"], other: Vector
) -> Float32[np.ndarray, " v"]:
    """How much less each variant scores than the first, which is whole."""
    scores = index_scores(other[None], encoder.vectors(features), encoder.metric)[0]
    losses: Float32[np.ndarray, " v"] = scores[0] - scores[1:]
    return losses
