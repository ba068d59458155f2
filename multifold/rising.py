"""Where numbers stand among others that rise, compiled by numba."""

import numpy as np
from jaxtyping import Bool, Int64

from multifold.compiling import compile_annotated

ALL = np.empty(0, np.bool_)


@compile_annotated()
def find_rising(
    wanted: Int64[np.ndarray, " n"], known: Int64[np.ndarray, " i"], alive: Bool[np.ndarray, " a"]
) -> Int64[np.ndarray, " n"]:
    """The places of those that are alive (`ALL`: that are there) among rising numbers; -1 for others.

    A search begins where a number would be if all gaps were alike, which is near it in most collections.
    """
    places = np.full(len(wanted), -1, np.int64)
    last = len(known) - 1
    if last < 0:
        return places
    slope = last / max(known[last] - known[0], 1)
    for row in range(len(wanted)):
        one = wanted[row]
        low = int(max(0.0, min((one - known[0]) * slope, float(last))))
        step = 1
        while low > 0 and known[low] > one:
            low = max(low - step, 0)
            step *= 2
        step = 1
        while low + step <= last and known[low + step] <= one:
            low += step
            step *= 2
        high = min(low + step, last + 1)
        while high - low > 1:
            middle = (low + high) // 2
            if known[middle] <= one:
                low = middle
            else:
                high = middle
        if known[low] == one and (len(alive) == 0 or alive[low]):
            places[row] = low
    return places
