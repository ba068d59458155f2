"""Makes the engines of a collection: in this process, perhaps saved in its folder, or in a cluster."""

from collections.abc import Callable, Mapping
from pathlib import Path

from index.cluster.cluster_engines import ClusterEngineSet
from index.cluster.contracts import MILVUS_VARIABLE, MilvusAddress
from index.contracts import (
    AUTO,
    CODES,
    EXACT,
    EngineKey,
    IndexEngine,
    IndexPlan,
    IndexPlanError,
    Memory,
    RowsOwner,
    Space,
)
from index.engine_set.engine_set import EngineSet
from index.engines import faiss_library
from index.engines.builder import real_queries
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import check_types
from index.engines.saved_engines import SavedEngines
from index.store.store import Store
from multifold.machine import memory_limit
from multifold.types import Aspect, Features, Side, Vectors


def check_plan(plan: IndexPlan, space: Space) -> None:
    """Refuse an index that cannot be built, before there are rows."""
    if plan.type != EXACT and not plan.in_milvus:
        check_types(plan, space.dim, on_gpu=faiss_library.uses_gpu(plan.device))


MEMORY_SHARE = 4  # vectors beyond a quarter of the memory are kept in files
FLOAT_BYTES = 4


class EngineFactory:
    """Makes the engines of one collection, as its plan says."""

    def __init__(
        self,
        space: Space,
        plan: IndexPlan,
        collection: str,
        home: Path | None,
        probes: Mapping[Side, Features] | None = None,
        memory: Memory = "auto",
    ) -> None:
        check_plan(plan, space)
        self._space = space
        self._plan = plan
        self._collection = collection
        self._home = home
        self._memory = memory if plan.memory == AUTO else plan.memory
        self._probes = probes or {}
        self._engines: dict[EngineKey, IndexEngine] = {}

    def __call__(self, segment: EngineKey) -> IndexEngine:
        """A new, empty engine for the rows of one side and kind."""
        space = self._space
        side, kind = segment
        owner = RowsOwner(space.vector_id, self._collection, side, kind)
        if self._plan.type == EXACT:
            self._engines[segment] = ExactEngine(space.dim, space.metric, owner)
        else:
            ask, signs = self._asker(side), space.query_signs
            self._engines[segment] = FaissEngine(
                space.dim,
                space.metric,
                self._plan,
                ask=ask,
                signs=signs,
                owner=owner,
                home=self._home,
                apart=self._apart,
            )
        return self._engines[segment]

    def _apart(self) -> bool:
        """Whether vectors of rows that are sealed now go to files, for all of them may not fit in memory."""
        if self._memory != AUTO:
            return self._memory == CODES
        rows = sum(engine.count() for engine in [*self._engines.values()])
        return rows * self._space.dim * FLOAT_BYTES * MEMORY_SHARE > memory_limit()

    def _asker(self, side: Aspect) -> Callable[[int], Vectors | None]:
        return lambda count: real_queries(self._space, side, count, self._probes, self._engines)


def place_engines(
    space: Space,
    store: Store,
    plan: IndexPlan,
    cluster: MilvusAddress | None,
    home: Path | None,
    probes: Mapping[Side, Features] | None,
    memory: Memory = "auto",
    *,
    writes: bool,
    follows: bool,
) -> EngineSet:
    """The engines that the plan asks for; one that asks for no type of its own goes where a cluster is.

    So it is with `memory`, where the plan leaves that to whoever opens the collection.
    """
    if plan.in_milvus or (cluster is not None and plan.type == AUTO):
        if cluster is None:
            raise IndexPlanError(
                f"The collection lies in Milvus: say where, as in {MILVUS_VARIABLE}=http://milvus:19530."
            )
        return ClusterEngineSet(space, store, cluster, plan, probes, writes=writes)
    saved = None if home is None else SavedEngines(home, space.vector_id, plan, store.former, store.session)
    sealed = saved.home if saved and writes else None
    factory = EngineFactory(space, plan, store.collection, sealed, probes, memory)
    return EngineSet(space, store, factory, plan, saved, follows=follows)
