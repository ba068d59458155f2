"""FAISS as it is at run time, untyped here and nowhere else; its GPU devices; index scores as L2 distances.

A resource object may be used by one thread at a time: each index gets its own, and is searched in turns.

Graphs and cells work on L2. -‖q̂ - ĝ‖² ranks the rows as the index score does:

- `l2`: q̂ = q, ĝ = g;
- `ip`, all g of one length: ‖q - g‖² = ‖q‖² + ‖g‖² - 2⟨q, g⟩, so q̂ = q, ĝ = g as well;
- `ip`, lengths up to M: ĝ = [g ; √(M² - ‖g‖²)] has the length M, and q̂ = [q ; 0].

For the inner product q̂ is brought to the length M, which changes no ranking and keeps float32 exact enough.
Zeros fill both up to a multiple of 16, for which the vector units of every type are fastest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32

from index.contracts import Device, IndexPlanError
from multifold.errors import needs_extra
from multifold.types import Metric, Vectors

with needs_extra("cpu"):
    import faiss as library


Index: TypeAlias = Any  # whatever FAISS made
faiss: Any = library


MOST_ON_GPU, MOST_BY_CAGRA = 2048, 1024  # neighbours of one query; on a GPU, cells as well
SCRATCH = 1 << 28
CAGRA, LINKS = "CAGRA", 96  # of a row; with 64 a recall of 0.99 was missed


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
    index = _empty_cagra(vectors.shape[1])
    index.train(vectors)
    index.referenced_objects = [vectors]  # whose memory is what it saves
    return index


def _empty_cagra(dim: int) -> Index:
    config = faiss.GpuIndexCagraConfig()
    config.graph_degree, config.intermediate_graph_degree = LINKS, 2 * LINKS
    return faiss.GpuIndexCagra(gpu_resources(), dim, faiss.METRIC_L2, config)


def to_gpu(index: Index) -> Index:
    """An index on the GPU; one whose type lives on the CPU alone stays there."""
    if is_instance(index, "IndexHNSWCagra"):
        graph = _empty_cagra(index.d)
        graph.copyFrom(index)
        graph.referenced_objects = [index]  # whose memory it uses
        return graph
    if faiss.try_extract_index_ivf(index) is None:
        return index
    return faiss.index_cpu_to_gpu(gpu_resources(), 0, index)


def to_cpu(index: Index) -> Index:
    """An index that can be written to a file."""
    if not is_on_gpu(index):
        return index
    if is_cagra(index):
        graph = faiss.IndexHNSWCagra()
        graph.base_level_only = True  # the only one that a GPU reads
        index.copyTo(graph)
        return graph
    return faiss.index_gpu_to_cpu(index)


def is_on_gpu(index: Index) -> bool:
    return is_instance(index, "GpuIndex")


def is_cagra(index: Index) -> bool:
    """Whether an index is a CAGRA graph on a GPU."""
    return is_instance(index, "GpuIndexCagra")


def most_neighbours(index: Index) -> int:
    """How many neighbours of a query one search can give."""
    if is_cagra(index):
        return min(MOST_BY_CAGRA, int(index.ntotal))
    return min(MOST_ON_GPU, int(index.ntotal)) if is_on_gpu(index) else int(index.ntotal)


def is_instance(index: Index, name: str) -> bool:
    """Whether an index is of a class that some builds of FAISS do not have."""
    return isinstance(index, getattr(faiss, name, ()))


COPIED_BYTES = 1 << 20  # bytes of an index on their way


def write_index(index: Index, emit: Callable[[bytes], object]) -> None:
    """Give the bytes of an index a piece at a time, the same each time; what `emit` raises is raised."""
    failures: list[OSError] = []

    def give(piece: bytes) -> None:
        try:
            if not failures:
                emit(piece)
        except OSError as error:  # which would not pass through FAISS
            failures.append(error)

    faiss.write_index(index, faiss.PyCallbackIOWriter(give, COPIED_BYTES))
    for failure in failures:
        raise failure


def read_index(data: memoryview) -> Index:
    """The index that `write_index` wrote, read a piece at a time."""
    place = 0

    def take(size: int) -> bytes:
        nonlocal place
        piece = bytes(data[place : place + size])
        place += len(piece)
        return piece

    return faiss.read_index(faiss.PyCallbackIOReader(take, COPIED_BYTES))


MULTIPLE = 16
TINIEST = np.float32(1e-20)  # what a query of no length is divided by
EVEN = 1e-5  # lengths whose spread is within this share of the longest count as one length

ReducedVectors = Float32[np.ndarray, "b w"]


@dataclass(frozen=True)
class L2Reduction:
    """How vectors of one segment become vectors for L2."""

    dim: int
    reach: float | None  # M, the length that all queries are brought to; None: queries stay as they are
    lifted: bool  # whether rows get √(M² - ‖g‖²) appended

    @property
    def width(self) -> int:
        return -(-(self.dim + self.lifted) // MULTIPLE) * MULTIPLE

    def fits(self, gallery_lengths: Float32[np.ndarray, " g"]) -> bool:
        """Whether rows of these lengths can be reduced as those are that this was made for."""
        if self.reach is None:
            return True
        longest, shortest = _span(gallery_lengths)
        if self.lifted:
            return longest <= self.reach
        return (1 - EVEN) * self.reach <= shortest and longest <= (1 + EVEN) * self.reach

    def gallery(self, vectors: Vectors) -> ReducedVectors:
        reduced = self._padded(vectors)
        if self.lifted and self.reach is not None:
            squares = np.einsum("bd,bd->b", vectors, vectors, dtype=np.float64)
            reduced[:, self.dim] = np.sqrt(np.maximum(self.reach**2 - squares, 0))
        return reduced

    def factors(self, queries: Vectors) -> Float32[np.ndarray, " b"] | None:
        """What queries are multiplied by to reach as far as rows; None leaves them as they are."""
        if self.reach is None:
            return None
        own = np.sqrt(np.einsum("bd,bd->b", queries, queries))
        return np.asarray(np.float32(self.reach) / np.maximum(own, TINIEST))

    def queries(self, vectors: Vectors) -> ReducedVectors:
        return self.scaled(vectors, self.factors(vectors))

    def scaled(self, vectors: Vectors, factors: Float32[np.ndarray, " b"] | None) -> ReducedVectors:
        """Queries, reduced by these factors."""
        if factors is not None:
            vectors = vectors * factors[:, None]
        return vectors if self.width == self.dim else self._padded(vectors)

    def distances(
        self, factors: Float32[np.ndarray, " b"] | None, scores: Float32[np.ndarray, " b"]
    ) -> Float32[np.ndarray, " b"]:
        """The squared distance of a row that scores so much, between the reduced vectors."""
        if factors is None or self.reach is None:
            return -scores
        return np.asarray(np.float32(2 * self.reach**2) - scores * factors * 2)

    def _padded(self, vectors: Vectors) -> ReducedVectors:
        reduced = np.zeros((len(vectors), self.width), np.float32)
        reduced[:, : self.dim] = vectors
        return reduced


def reduction_for(metric: Metric, dim: int, gallery_lengths: Float32[np.ndarray, " g"]) -> L2Reduction:
    """The reduction that these rows need."""
    if metric == "l2":
        return L2Reduction(dim, None, lifted=False)
    longest, shortest = _span(gallery_lengths)
    return L2Reduction(dim, longest or 1.0, lifted=longest - shortest > EVEN * longest)


def _span(gallery_lengths: Float32[np.ndarray, " g"]) -> tuple[float, float]:
    return float(gallery_lengths.max(initial=0.0)), float(gallery_lengths.min(initial=np.inf))
