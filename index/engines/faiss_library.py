"""FAISS as it is at run time, untyped here and nowhere else, and its GPU devices.

A resource object may be used by one thread at a time: each index gets its own, and is searched in turns.
"""

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32

from index.contracts import Device, IndexPlanError
from multifold.errors import needs_extra

with needs_extra("cpu"):
    import faiss as library


Index: TypeAlias = Any  # whatever FAISS made
faiss: Any = library


MOST_NEIGHBOURS = 2048  # of one query, on a GPU
SCRATCH = 1 << 28
CAGRA = "CAGRA"


def gpu_available() -> bool:
    """Whether FAISS can use a GPU here (the CPU build has GPU functions too, and no device)."""
    return hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


def uses_gpu(device: Device) -> bool:
    """Whether to use a GPU; asking for one that is not there is an error."""
    if device == "gpu" and not gpu_available():
        raise IndexPlanError(
            "FAISS finds no GPU here. Install the extra 'gpu' instead of 'cpu' on a machine that has one, "
            "or ask for the device cpu or auto."
        )
    return device != "cpu" and gpu_available()


def gpu_resources() -> Index:
    """Scratch memory on the first GPU, for one index."""
    own = faiss.StandardGpuResources()
    own.setTempMemory(SCRATCH)
    return own


def build_cagra(vectors: Float32[np.ndarray, "b w"]) -> Index:
    """A CAGRA graph over all vectors at once."""
    index = faiss.GpuIndexCagra(
        gpu_resources(), vectors.shape[1], faiss.METRIC_L2, faiss.GpuIndexCagraConfig()
    )
    index.train(vectors)
    return index


def to_gpu(index: Index) -> Index:
    """An index on the GPU; one whose type lives on the CPU alone stays there."""
    if is_instance(index, "IndexHNSWCagra"):
        graph = faiss.GpuIndexCagra(gpu_resources(), index.d, faiss.METRIC_L2, faiss.GpuIndexCagraConfig())
        graph.copyFrom(index)
        return graph
    if faiss.try_extract_index_ivf(index) is None:
        return index
    return faiss.index_cpu_to_gpu(gpu_resources(), 0, index)


def to_cpu(index: Index) -> Index:
    """An index that can be written to a file."""
    if not is_on_gpu(index):
        return index
    if is_instance(index, "GpuIndexCagra"):
        graph = faiss.IndexHNSWCagra()
        index.copyTo(graph)
        return graph
    return faiss.index_gpu_to_cpu(index)


def is_on_gpu(index: Index) -> bool:
    """Whether an index lives on a GPU."""
    return is_instance(index, "GpuIndex")


def is_instance(index: Index, name: str) -> bool:
    """Whether an index is of a class that some builds of FAISS do not have."""
    return isinstance(index, getattr(faiss, name, ()))
