"""The best row of each item for a query, compiled by numba."""

import numpy as np
from jaxtyping import Float32, Int8, Int16, Int64

from multifold.compiling import compile_function, types

BLOCK = 64  # numbers of a row
_ROWS = types.Array(types.int8, 2, "C", readonly=True)
_FLOATS, _PLACES, _QUERY = (
    types.Array(kind, 1, "C", readonly=True) for kind in (types.float32, types.int64, types.int16)
)


@compile_function(types.void(_ROWS, _FLOATS, _PLACES, _PLACES, _QUERY, types.float32[::1]))
def score_rows(
    rows: Int8[np.ndarray, "r d"],
    sizes: Float32[np.ndarray, " r"],
    starts: Int64[np.ndarray, " s"],
    places: Int64[np.ndarray, " p"],
    query: Int16[np.ndarray, " d"],
    scores: Float32[np.ndarray, " p"],
) -> None:
    """Write the best product of the query with the rows of each item; items without rows stay as they are."""
    whole = len(query) // BLOCK * BLOCK
    for at in range(len(places)):
        first, end = starts[places[at]], starts[places[at] + 1]
        best = np.float32(-np.inf)
        for place in range(first, end):
            total = np.int32(0)  # numba would sum in 64 bits, a third as fast
            for block in range(0, whole, BLOCK):  # of a known length, which takes three quarters of the time
                for i in range(block, block + BLOCK):
                    total = np.int32(total + np.int32(np.int32(rows[place, i]) * np.int32(query[i])))
            for i in range(whole, len(query)):
                total = np.int32(total + np.int32(np.int32(rows[place, i]) * np.int32(query[i])))
            best = max(best, np.float32(total) * sizes[place])
        if end > first:
            scores[at] = best
