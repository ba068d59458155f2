"""Index scores: higher is better, `ip` is ⟨q, g⟩ and `l2` is -‖q - g‖².

`exact` is the truth: summed in float64 and rounded once, so a row scores the same wherever it lies and
whoever lies beside it. `fast` is one float32 matrix product, and never further from `exact` than `slack`:
a float32 sum of d products is off by at most d·2⁻²⁴ of the product of lengths, in any order; twice that is
allowed for.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

from multifold.types import Metric, Vector, Vectors

Lengths: TypeAlias = Float32[np.ndarray, " g"]
Gather: TypeAlias = Callable[
    [bool, Vectors, Float32[np.ndarray, "g d"], Int64[np.ndarray, "q c"], Float32[np.ndarray, "q c"]], None
]
PIECE = 1 << 17  # numbers that stay in a core's cache
TINY = 2.0**-126  # what an underflow may lose


def lengths(vectors: Vectors) -> Float32[np.ndarray, " b"]:
    """The Euclidean length of each vector."""
    squares = np.einsum("bd,bd->b", vectors, vectors, dtype=np.float64)
    return np.asarray(np.sqrt(squares), np.float32)


def exact(
    metric: Metric,
    query: Vector,
    gallery: Float32[np.ndarray, "g d"],
    places: Int64[np.ndarray, " c"] | None = None,
) -> Float32[np.ndarray, " c"]:
    """The scores of a query against rows of the gallery, rounded once; without `places` against each."""
    where = np.arange(len(gallery)) if places is None else places
    scores: Float32[np.ndarray, " c"] = exact_at(metric, query[None], gallery, where[None])[0]
    return scores


def exact_at(
    metric: Metric, queries: Vectors, gallery: Float32[np.ndarray, "g d"], places: Int64[np.ndarray, "q c"]
) -> Float32[np.ndarray, "q c"]:
    """Each query against places of the gallery of its own, as `exact` scores them."""
    scores = np.empty(places.shape, np.float32)
    if gather := compiled():
        asked, rows, where = (np.ascontiguousarray(array) for array in (queries, gallery, places))
        gather(metric == "l2", asked, rows, where, scores)
        return scores
    step = max(1, PIECE // max(1, places.shape[1] * gallery.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        scores[some] = _exact(metric, queries[some], gallery[places[some]])
    return scores


@cache
def compiled() -> Gather | None:
    """Exact scores in a third of the time, where numba is installed; loading it takes half a second."""
    if find_spec("numba") is None:
        return None
    gather: Gather = import_module("index.engines.gathering").gather
    return gather


def _exact(
    metric: Metric, queries: Float32[np.ndarray, "q d"], galleries: Float32[np.ndarray, "q c d"]
) -> Float32[np.ndarray, "q c"]:
    wide, asked = galleries.astype(np.float64), queries.astype(np.float64)[:, None]
    if metric == "ip":
        return np.asarray(sums(wide, asked), np.float32)
    wide -= asked
    return np.asarray(-sums(wide, wide), np.float32)


def sums(
    left: Float64[np.ndarray, "*#b d"], right: Float64[np.ndarray, "*#b d"]
) -> Float64[np.ndarray, "..."]:
    """⟨left, right⟩ of each pair: products of a row and a column, in whose order no other pair has a part."""
    return np.asarray(np.matmul(left[..., None, :], right[..., None])[..., 0, 0])


def fast(
    metric: Metric,
    queries: Float32[np.ndarray, "q d"],
    gallery: Float32[np.ndarray, "g d"],
    gallery_lengths: Lengths,
) -> Float32[np.ndarray, "q g"]:
    """The scores of all queries against all rows, within `slack` of the exact ones."""
    products: Float32[np.ndarray, "q g"] = queries @ gallery.T
    if metric == "l2":
        products *= 2
        products -= gallery_lengths**2
        products -= lengths(queries)[:, None] ** 2
    return products


def slack(metric: Metric, query: Vector, longest: float) -> float:
    """How far a fast score may lie from the exact one, among rows no longer than `longest`."""
    query_length = float(lengths(query[None])[0])
    scale = longest * query_length if metric == "ip" else (longest + query_length) ** 2
    return slack_of(scale, len(query))


def slack_of(scale: float, dim: int) -> float:
    """How far sums over products of vectors can be off in float32, where no term is larger than `scale`."""
    terms = dim + 8
    return scale * terms * 2.0**-23 + terms * TINY


def best(
    scores: Float32[np.ndarray, "q c"], places: Int64[np.ndarray, "q c"], limit: int
) -> tuple[Float32[np.ndarray, "q k"], Int32[np.ndarray, "q k"]]:
    """The best scores of each row and their places (below 2³¹), best first; ties go to the smaller place."""
    keys = np.empty(places.shape, np.int64)  # which are sorted many times faster than pairs
    low, high = _halves(keys)
    low[:], high[:] = places, _rising((0 - scores).view(np.int32))
    keys.sort(axis=1)
    low, high = _halves(keys[:, :limit])
    return 0 - _rising(high).view(np.float32), low


def _halves(keys: Int64[np.ndarray, "q c"]) -> tuple[Int32[np.ndarray, "q c"], Int32[np.ndarray, "q c"]]:
    halves = keys.view("<i4")
    return halves[:, ::2], halves[:, 1::2]


def _rising(bits: Int32[np.ndarray, "q c"]) -> Int32[np.ndarray, "q c"]:
    """The bits of floats as integers of the same order, and back."""
    return np.asarray(bits ^ ((bits >> 31) & 0x7FFF_FFFF))
