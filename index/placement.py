"""Where the engines of a collection lie: in this process, perhaps saved in its folder, or in a cluster."""

from collections.abc import Mapping
from pathlib import Path

from index.base import Space
from index.derived import Derived
from index.engines.cluster import VARIABLE, Cluster
from index.engines.saved import SavedEngines
from index.engines.table import Engines
from index.plan import AUTO, MILVUS, Plan, PlanError
from index.truth.store import Store
from multifold.types import Features, Side


def placed(
    space: Space,
    store: Store,
    plan: Plan,
    cluster: Cluster | None,
    home: Path | None,
    probes: Mapping[Side, Features] | None,
    *,
    writes: bool,
) -> Derived:
    """The engines that the plan asks for; one that asks for no type of its own goes where a cluster is."""
    if plan.type == MILVUS or (cluster is not None and plan.type == AUTO):
        return _in_cluster(space, store, cluster, probes, plan.recall, writes=writes)
    if home is None:
        return Derived(space, Engines(space, plan, None, probes))
    saved = SavedEngines(home, space.vector_id, plan, store.former, store.session)
    return Derived(space, Engines(space, plan, saved.home if writes else None, probes), saved)


def _in_cluster(
    space: Space,
    store: Store,
    cluster: Cluster | None,
    probes: Mapping[Side, Features] | None,
    recall: float,
    *,
    writes: bool,
) -> Derived:
    if cluster is None:
        raise PlanError(f"The collection lies in Milvus: say where, as in {VARIABLE}=http://milvus:19530.")
    from index.shared import Shared  # its client is an extra

    return Shared(space, store, cluster, probes, recall, writes=writes)
