"""Times on a machine that others use too: CPU time, taken in turns, reported as medians.

In each turn the racers ask different queries, so that none finds rows in the cache that another fetched, and
answer others just before, so that none pays for what another left there.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from benches.index.engines import ComparedEngine
from index.engines.faiss_library import faiss
from multifold.types import Vectors

APART = 5  # batches between those of two racers
Times = Float64[np.ndarray, " racers calls"]


def time_in_turns(
    racers: Sequence[ComparedEngine], queries: Vectors, limit: int, batch: int, rounds: int
) -> Times:
    """Seconds a query of each engine in each call; call by call they take turns."""
    faiss.omp_set_num_threads(1)
    times = np.empty((len(racers), rounds))
    for turn in range(rounds):
        for place in range(len(racers)) if turn % 2 else reversed(range(len(racers))):
            racer, own = racers[place], turn + APART * place
            asked = _batch(queries, batch, own)
            racer.prepare()
            racer.search(_batch(queries, batch, own + len(queries) // 2), limit)
            begun = racer.clock()
            racer.search(asked, limit)
            times[place, turn] = (racer.clock() - begun) / len(asked)
    return times


def _batch(queries: Vectors, size: int, place: int) -> Vectors:
    start = place * size % max(1, len(queries) - size + 1)
    return queries[start : start + size]
