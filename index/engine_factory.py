"""Makes the engines of a collection: in this process, perhaps saved in its folder, or in a cluster."""

from collections.abc import Callable, Mapping
from pathlib import Path

from index.cluster.contracts import MILVUS_VARIABLE, MilvusAddress
from index.contracts import AUTO, EXACT, MILVUS, EngineKey, IndexEngine, IndexPlan, IndexPlanError, Space
from index.engines import faiss_library
from index.engines.builder import real_queries
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import check_types
from index.engines.saved_engines import SavedEngines
from index.search.engine_set import EngineSet
from index.store.store import Store
from multifold.types import Features, Side, Vectors


def check_plan(plan: IndexPlan, dim: int) -> None:
    """Refuse an index that cannot be built, before there are rows."""
    if plan.type not in (EXACT, MILVUS):
        check_types(plan, dim, on_gpu=faiss_library.uses_gpu(plan.device))


class EngineFactory:
    """Makes the engines of one collection, as its plan says."""

    def __init__(
        self, space: Space, plan: IndexPlan, home: Path | None, probes: Mapping[Side, Features] | None = None
    ) -> None:
        self._space, self._plan, self._home = space, plan, home
        self._probes = probes or {}
        self._engines: dict[EngineKey, IndexEngine] = {}

    def __call__(self, segment: EngineKey) -> IndexEngine:
        """A new, empty engine for the rows of one side and kind."""
        space = self._space
        if self._plan.type == EXACT:
            self._engines[segment] = ExactEngine(space.dim, space.metric)
        else:
            ask, signs = self._asker(segment[0]), space.query_signs
            self._engines[segment] = FaissEngine(
                space.dim, space.metric, self._plan, ask=ask, signs=signs, home=self._home
            )
        return self._engines[segment]

    def _asker(self, side: Side) -> Callable[[int], Vectors | None]:
        return lambda count: real_queries(self._space, side, count, self._probes, self._engines)


def place_engines(
    space: Space,
    store: Store,
    plan: IndexPlan,
    cluster: MilvusAddress | None,
    home: Path | None,
    probes: Mapping[Side, Features] | None,
    *,
    writes: bool,
) -> EngineSet:
    """The engines that the plan asks for; one that asks for no type of its own goes where a cluster is."""
    if plan.type == MILVUS or (cluster is not None and plan.type == AUTO):
        if cluster is None:
            raise IndexPlanError(
                f"The collection lies in Milvus: say where, as in {MILVUS_VARIABLE}=http://milvus:19530."
            )
        from index.cluster.cluster_engines import ClusterEngineSet  # its client is an extra

        return ClusterEngineSet(space, store, cluster, probes, plan.recall, writes=writes)
    if home is None:
        return EngineSet(space, EngineFactory(space, plan, None, probes))
    saved = SavedEngines(home, space.vector_id, plan, store.former, store.session)
    return EngineSet(space, EngineFactory(space, plan, saved.home if writes else None, probes), saved)
