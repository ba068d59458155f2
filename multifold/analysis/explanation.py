"""Which parts of a picture or a text made its index score with another vector.

points: exact for point clouds, whose score is a sum over pairs of points. grad-cam: for bundles with
`explain_*.onnx`: the gradient of the score at the last block, averaged over places, times the activation;
positive shares only. occlusion: for any bundle: how much the score falls when a place is blank or a word is
missing. Except for grad-cam, shares are in units of the index score; negative shares lower it.

`other` is the index vector of the other side, signs applied.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import isqrt
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float32

from multifold.bundle.encoder import Encoder
from multifold.bundle.tokenizer import clean
from multifold.errors import MultifoldError
from multifold.scores import index_scores
from multifold.types import ExplanationMethod, Pixels, Vector

METHODS: tuple[ExplanationMethod, ...] = get_args(ExplanationMethod)
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "explain_image.onnx": ("pixels", "other"),
    "explain_text.onnx": ("tokens", "other", "places"),
    "points_image.onnx": ("pixels",),
    "points_text.onnx": ("tokens",),
}
# by side and method, the mean score left while the best places are deleted
METHOD_QUALITY_FILE = "explaining.json"
Colour: TypeAlias = Sequence[int]
CELLS = 7  # along a side of a picture that is covered cell by cell
WHITE = (255, 255, 255)


class ExplanationError(MultifoldError):
    """A way to explain that this bundle does not know."""


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


class Explainer:
    """Explains the scores of one encoder. Its graphs are opened when they are needed."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._open: dict[str, Any] = {}
        self._opening = threading.Lock()
        self._measured: Mapping[str, Mapping[str, float]] = encoder.bundle.json(METHOD_QUALITY_FILE) or {}

    def methods(self, side: Literal["image", "text"]) -> tuple[ExplanationMethod, ...]:
        """How pictures or texts can be explained, best first."""
        has = self.encoder.bundle.has
        has_graph = {"points": has(f"points_{side}.onnx"), "grad-cam": has(f"explain_{side}.onnx")}
        methods = [method for method in METHODS if has_graph.get(method, True)]
        left = self._measured.get(side, {})
        return tuple(sorted(methods, key=lambda method: left.get(method, 0.0)))

    def picture(
        self, square: Pixels, other: Vector, method: ExplanationMethod | None = None, blank: Colour = WHITE
    ) -> HeatMap:
        """The shares of a picture's places; `blank` is the colour of nothing."""
        method = self._chosen("image", method)
        if method == "occlusion":
            return HeatMap(method, self._occlude(square, other, blank))
        if method == "points":
            shares = self.points("image", square[None])[0] @ other
        else:
            shares = self._run("explain_image.onnx", pixels=square[None], other=other[None])[0].clip(min=0)
        side = isqrt(len(shares))
        return HeatMap(method, shares[-side * side :].reshape(side, side).astype(np.float32))

    def text(self, text: str, other: Vector, method: ExplanationMethod | None = None) -> WordShares:
        """The shares of a text's words."""
        method = self._chosen("text", method)
        if method == "occlusion":
            return WordShares(method, self._leave_out(text, other))
        ids, words = self.encoder.tokenizer([text]).ids, self.encoder.tokenizer.words(text)
        if method == "points":
            shares = self.points("text", ids)[0] @ other
        else:
            places = np.zeros(ids.shape, np.float32)
            places[0, [place for _, held in words for place in held]] = 1
            inputs = {"tokens": ids, "other": other[None], "places": places}
            shares = self._run("explain_text.onnx", **inputs)[0].clip(min=0)
        return WordShares(method, tuple((word, float(shares[[*held]].sum())) for word, held in words))

    def points(self, side: Literal["image", "text"], values: np.ndarray) -> Float32[np.ndarray, "b t d"]:
        """What each point of pictures or tokens adds to the index vector: with points graphs only."""
        name = f"points_{side}.onnx"
        added: Float32[np.ndarray, "b t d"] = self._run(name, **{ARGUMENTS[name][0]: values})
        return added

    def _chosen(self, side: Literal["image", "text"], method: ExplanationMethod | None) -> ExplanationMethod:
        methods = self.methods(side)
        if method is not None and method not in methods:
            ways = f"no {side} by {method}, but by {', '.join(methods)}"
            raise ExplanationError(f"bundle {self.encoder.bundle.name} explains {ways}")
        return method or methods[0]

    def _occlude(self, square: Pixels, other: Vector, blank: Colour) -> Float32[np.ndarray, "y x"]:
        places = np.linspace(0, len(square), CELLS + 1).round().astype(int).tolist()
        edges = [slice(*both) for both in pairwise(places)]
        variants = np.repeat(square[None], 1 + CELLS**2, axis=0)
        for variant, (rows, columns) in zip(variants[1:], product(edges, edges), strict=True):
            variant[rows, columns] = blank
        return self._losses(self.encoder.pixels(variants), other).reshape(CELLS, CELLS)

    def _leave_out(self, text: str, other: Vector) -> tuple[tuple[str, float], ...]:
        words = clean(text, self.encoder.bundle.text.cleaning).split()
        variants = [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]
        losses = self._losses(self.encoder.texts([" ".join(words), *variants]).features, other)
        return tuple(zip(words, losses.tolist(), strict=True))

    def _losses(self, features: Float32[np.ndarray, "b n"], other: Vector) -> Float32[np.ndarray, " v"]:
        """How much less each variant scores than the first, which is whole."""
        scores = index_scores(other[None], self.encoder.vectors(features), self.encoder.metric)[0]
        losses: Float32[np.ndarray, " v"] = scores[0] - scores[1:]
        return losses

    def _run(self, name: str, **inputs: np.ndarray) -> np.ndarray:
        with self._opening:
            if name not in self._open:
                self._open[name] = self.encoder.session(name, *ARGUMENTS[name])
        answer: np.ndarray = self._open[name].run(None, inputs)[0]
        return answer


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
