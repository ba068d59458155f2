"""Parts worked out by Ray Data, on this machine or on many that see the same files.

A worker that is killed is replaced by Ray, and its part done again, as often as on one machine.
"""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multifold.errors import needs_extra
from training.data.extraction.extract import MOST_DEATHS, WorkerDeathsError
from training.data.extraction.parts import FeatureExtractor, ManifestPart, PartFeatures

LOCAL = "local"


class _Actor:
    def __init__(self, bundle: str) -> None:
        self.extractor = FeatureExtractor(Path(bundle))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        packed = [pickle.dumps(self.extractor(pickle.loads(part))) for part in batch["part"]]  # noqa: S301
        return {"result": np.array(packed, dtype=object)}


def work_on_cluster(
    bundle: Path, parts: Sequence[ManifestPart], workers: int, address: str
) -> Iterator[PartFeatures]:
    """Results as they come, from a cluster at an address or a local one of this machine (`local`)."""
    with needs_extra("cluster"):
        import ray

    own = not ray.is_initialized()
    if own and address == LOCAL:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    elif own:
        ray.init(address=address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        rows = [{"part": pickle.dumps(part)} for part in parts]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        pool = ray.data.ActorPoolStrategy(size=workers)
        folder = str(bundle.resolve())
        tries: dict[str, Any] = {"max_restarts": -1, "max_task_retries": MOST_DEATHS - 1}
        results = data.map_batches(_Actor, fn_constructor_args=(folder,), batch_size=1, compute=pool, **tries)
        for row in results.iter_rows():
            yield pickle.loads(row["result"])  # noqa: S301 (of our own workers)
    except ray.exceptions.RayActorError as error:
        raise WorkerDeathsError(workers) from error
    finally:
        if own:
            ray.shutdown()
