"""Index scores of rows: exact ones, compiled by numba, and fast ones that are off by a known slack at most.

Exact scores are summed in float64 and rounded once, so a row scores the same wherever it is stored. Fast
scores are one float32 matrix product: a sum of d products is off by at most d·2⁻²⁴ of the product of lengths,
in any order, and twice that is allowed for.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from multifold.compiling import compile_function, types
from multifold.types import Metric, Vector, Vectors

Lengths: TypeAlias = Float32[np.ndarray, " g"]
TINY = 2.0**-126  # what an underflow may lose
SQUARES_SLACK = 2.0**-20  # of a square of lengths, for the roundings of both and of their sums
ZERO_LENGTH = 1e-300  # a length that a vector of zeros is divided by


def lengths(vectors: Vectors) -> Float32[np.ndarray, " b"]:
    """The Euclidean length of each vector."""
    return np.asarray(np.sqrt(np.einsum("bd,bd->b", vectors, vectors, dtype=np.float64)), np.float32)


def exact_scores(metric: Metric, query: Vector, gallery: Vectors) -> Float32[np.ndarray, " b"]:
    """The scores of a query against each row, rounded once."""
    return np.asarray(exact_scores_at(metric, query[None], gallery, np.arange(len(gallery))[None])[0])


def exact_scores_at(
    metric: Metric, queries: Vectors, gallery: Float32[np.ndarray, "g d"], places: Int64[np.ndarray, "q c"]
) -> Float32[np.ndarray, "q c"]:
    """Each query against places of the gallery of its own, each score rounded once."""
    scores = np.empty(places.shape, np.float32)
    _gather_scores(
        metric == "l2",
        np.ascontiguousarray(queries),
        np.ascontiguousarray(gallery),
        np.ascontiguousarray(places),
        scores,
    )
    return scores


_VECTORS = types.Array(types.float32, 2, "C", readonly=True)
_PLACES = types.Array(types.int64, 2, "C", readonly=True)


@compile_function(
    types.void(types.boolean, _VECTORS, _VECTORS, _PLACES, types.float32[:, ::1]),
    fastmath={"reassoc", "contract"},  # sums are made in several lanes
)
def _gather_scores(
    by_distance: bool,
    queries: Vectors,
    vectors: Float32[np.ndarray, "g d"],
    places: Int64[np.ndarray, "q c"],
    scores: Float32[np.ndarray, "q c"],
) -> None:
    """Write the score of each query against the vectors at places of its own.

    Memory takes longer to give a row than it takes to sum it, so several are read together. Every row is
    summed in the same order, whichever its neighbours are.
    """
    last = places.shape[1] - 1
    for at in range(len(queries)):
        query = queries[at].astype(np.float64)
        for first in range(0, last + 1, 4):
            second, third, fourth = min(first + 1, last), min(first + 2, last), min(first + 3, last)
            a, b = vectors[places[at, first]], vectors[places[at, second]]
            c, d = vectors[places[at, third]], vectors[places[at, fourth]]
            of_a = of_b = of_c = of_d = 0.0
            if by_distance:
                for i in range(len(query)):
                    of_a -= (a[i] - query[i]) ** 2
                    of_b -= (b[i] - query[i]) ** 2
                    of_c -= (c[i] - query[i]) ** 2
                    of_d -= (d[i] - query[i]) ** 2
            else:
                for i in range(len(query)):
                    of_a += a[i] * query[i]
                    of_b += b[i] * query[i]
                    of_c += c[i] * query[i]
                    of_d += d[i] * query[i]
            scores[at, first], scores[at, second] = of_a, of_b
            scores[at, third], scores[at, fourth] = of_c, of_d


def cosines(query: Vector, vectors: Vectors) -> Float32[np.ndarray, " b"]:
    """The cosine of a query with each vector, rounded once."""
    scores = np.empty(len(vectors), np.float32)
    _write_cosines(np.ascontiguousarray(query), np.ascontiguousarray(vectors), scores)
    return scores


@compile_function(
    types.void(types.Array(types.float32, 1, "C", readonly=True), _VECTORS, types.float32[::1]),
    fastmath={"reassoc", "contract"},
)
def _write_cosines(query: Vector, vectors: Vectors, scores: Float32[np.ndarray, " b"]) -> None:
    asked = query.astype(np.float64)
    own = 0.0
    for i in range(len(asked)):
        own += asked[i] * asked[i]
    for row in range(len(vectors)):
        vector = vectors[row]
        product = square = 0.0
        for i in range(len(asked)):
            product += vector[i] * asked[i]
            square += np.float64(vector[i]) * vector[i]
        scores[row] = product / max(np.sqrt(square * own), ZERO_LENGTH)


def pair_products(
    left: Float64[np.ndarray, "*#b d"], right: Float64[np.ndarray, "*#b d"]
) -> Float64[np.ndarray, "..."]:
    """⟨left, right⟩ of each pair: products of a row and a column, in whose order no other pair has a part."""
    return np.asarray(np.matmul(left[..., None, :], right[..., None])[..., 0, 0])


def fast_scores(
    metric: Metric,
    queries: Float32[np.ndarray, "q d"],
    gallery: Float32[np.ndarray, "g d"],
    gallery_lengths: Lengths,
) -> Float32[np.ndarray, "q g"]:
    """The scores of all queries against all rows, within `score_slack` of the exact ones."""
    products: Float32[np.ndarray, "q g"] = queries @ gallery.T
    if metric == "l2":
        products *= 2
        products -= gallery_lengths**2
        products -= lengths(queries)[:, None] ** 2
    return products


def score_slack(metric: Metric, query: Vector, longest: float) -> float:
    """How far a fast score may be from the exact one, among rows no longer than `longest`."""
    query_length = float(lengths(query[None])[0])
    slack = product_slack(longest * query_length, len(query))
    if metric == "l2":  # -|q|² + 2⟨q, x⟩ - |x|²: one sum, doubled, and squares that are rounded a few times
        slack = 2 * slack + (longest + query_length) ** 2 * SQUARES_SLACK
    return slack


def summed_slack(metric: Metric, query: Vector, longest: float) -> float:
    """The same of scores that others sum in float32, in any order."""
    query_length = float(lengths(query[None])[0])
    scale = longest * query_length if metric == "ip" else (longest + query_length) ** 2
    return product_slack(scale, len(query))


def product_slack(scale: float, dim: int) -> float:
    """How far sums over products of vectors can be off in float32, where no term is larger than `scale`."""
    terms = dim + 8
    return scale * terms * 2.0**-23 + terms * TINY
