"""Exact scores of rows at scattered places, compiled by numba.

Memory takes longer to give a row than it takes to sum it, so several are read together. Every row is
summed in the same order, whichever its neighbours are.
"""

import numpy as np
from jaxtyping import Float32, Int64

from multifold.compiling import compile_function, types
from multifold.types import Vectors

_VECTORS, _PLACES = (types.Array(kind, 2, "C", readonly=True) for kind in (types.float32, types.int64))


@compile_function(
    types.void(types.boolean, _VECTORS, _VECTORS, _PLACES, types.float32[:, ::1]),
    fastmath={"reassoc", "contract"},  # sums are made in several lanes
)
def gather_scores(
    by_distance: bool,
    queries: Vectors,
    vectors: Float32[np.ndarray, "g d"],
    places: Int64[np.ndarray, "q c"],
    scores: Float32[np.ndarray, "q c"],
) -> None:
    """Write the score of each query against the vectors at places of its own."""
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
