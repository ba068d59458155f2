"""Which engine a side's rows get, and which real queries it measures its recall with."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from index.base import Engine, RowKind, Segment, Space
from index.engines import gpu
from index.engines.ann import check
from index.engines.exact import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.plan import EXACT, MILVUS, Plan
from multifold.scores import signed
from multifold.types import SIDES, Features, Side, Vectors

FEWEST = 32  # queries that are worth measuring with
SEEN: RowKind = "observation"


def check_plan(plan: Plan, dim: int) -> None:
    """Refuse an index that nobody can build, before there is anything to build it of."""
    if plan.type not in (EXACT, MILVUS):
        check(plan, dim, on_gpu=gpu.chosen(plan.device))


class Engines:
    """Makes the engines of one collection, as its plan says."""

    def __init__(
        self, space: Space, plan: Plan, home: Path | None, probes: Mapping[Side, Features] | None = None
    ) -> None:
        self._space, self._plan, self._home = space, plan, home
        self._probes = probes or {}
        self._made: dict[Segment, Engine] = {}

    def __call__(self, segment: Segment) -> Engine:
        """A new, empty engine for the rows of one side and kind."""
        self._made[segment] = self._new(segment[0])
        return self._made[segment]

    def _new(self, side: Side) -> Engine:
        dim, metric = self._space.dim, self._space.metric
        if self._plan.type == EXACT:
            return ExactEngine(dim, metric)
        return FaissEngine(
            dim, metric, self._plan, ask=self._asker(side), signs=self._space.query_signs, home=self._home
        )

    def _asker(self, side: Side) -> Callable[[int], Vectors | None]:
        return lambda count: real_queries(self._space, side, count, self._probes, self._made)


def real_queries(
    space: Space,
    side: Side,
    count: int,
    probes: Mapping[Side, Features],
    stored: Mapping[Segment, Engine],
) -> Float32[np.ndarray, "q d"] | None:
    """Queries of the other sides: the encoder's own probes, else what is stored; None where these are few."""
    for other in (one for one in SIDES if one != side):
        if other in probes:
            vectors = space.vectors(probes[other][:count])
        elif (other, SEEN) in stored:
            vectors = stored[other, SEEN].sample(count)
        else:
            continue
        if len(vectors) >= FEWEST:
            return signed(vectors, space.query_signs)
    return None
