"""Where the engines of a collection lie: in this process, perhaps saved in its folder, or in a cluster."""

from collections.abc import Mapping
from pathlib import Path

from index.cluster.contracts import MILVUS_VARIABLE, MilvusAddress
from index.contracts import AUTO, MILVUS, IndexPlan, IndexPlanError, Space
from index.engines.factory import EngineFactory
from index.engines.saved_engines import SavedEngines
from index.search.engine_set import EngineSet
from index.store.store import Store
from multifold.types import Features, Side


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
        return _in_cluster(space, store, cluster, probes, plan.recall, writes=writes)
    if home is None:
        return EngineSet(space, EngineFactory(space, plan, None, probes))
    saved = SavedEngines(home, space.vector_id, plan, store.former, store.session)
    return EngineSet(space, EngineFactory(space, plan, saved.home if writes else None, probes), saved)


def _in_cluster(
    space: Space,
    store: Store,
    cluster: MilvusAddress | None,
    probes: Mapping[Side, Features] | None,
    recall: float,
    *,
    writes: bool,
) -> EngineSet:
    if cluster is None:
        raise IndexPlanError(
            f"The collection lies in Milvus: say where, as in {MILVUS_VARIABLE}=http://milvus:19530."
        )
    from index.cluster.cluster_engines import ClusterEngineSet  # its client is an extra

    return ClusterEngineSet(space, store, cluster, probes, recall, writes=writes)
