"""Vectors that imitate collections: clusters, a smooth surface, or an encoder's own features."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from index.contracts import Ids, Space
from index.engines.exact_engine import nearest_rows, view_of
from multifold.errors import MultifoldError
from multifold.files import feature_shards
from multifold.scores import apply_signs
from multifold.types import Vectors

CLUSTERS = 400
SURFACE, FOLDS, STEEPNESS = 16, 256, 1.5  # dimensions of a surface, and how it lies in space
PROBES = 256  # queries that recall is measured with while building
GAP = 1.0  # how far queries are shifted, all the same way, in standard deviations of a coordinate
UNEVEN, RANK = 700, 24  # clusters of unequal size, and directions in which each is wide
SPREAD, BLUR = 0.9, 1.2  # of rows and of queries around their cluster's centre


@dataclass(frozen=True)
class VectorSet:
    """Rows, queries to measure recall with while building, and queries to compare with."""

    rows: Float32[np.ndarray, "g d"]
    probes: Float32[np.ndarray, "p d"]
    queries: Float32[np.ndarray, "q d"]


def true_thresholds(
    rows: Vectors, queries: Vectors, limit: int, allowed: Ids | None = None
) -> Float32[np.ndarray, "q 1"]:
    """What the last of the true `limit` rows of each query scores, by inner product."""
    return nearest_rows("ip", view_of(np.arange(len(rows)), rows), queries, limit, allowed)[0][:, -1:]


def measure_recall(
    rows: Vectors, queries: Vectors, found: Int64[np.ndarray, "q k"], least: Float32[np.ndarray, "q 1"]
) -> float:
    """The share of the places in an answer that hold a row which scores as much as the true last one."""
    scores = np.einsum("qkd,qd->qk", rows[found], queries)
    return float(np.mean((scores >= least - 1e-5) & (found >= 0)))


def sphere_vectors(rows: int, dim: int, queries: int, seed: int = 0) -> VectorSet:
    """Unit vectors, with a gap between the sides as contrastive encoders have it."""
    return VectorSet(*map(unit_vectors, _features(rows, dim, queries, seed)))


def surface_vectors(rows: int, dim: int, queries: int, seed: int = 0) -> VectorSet:
    """Unit vectors anywhere on a smooth surface of a few dimensions; queries are of the same kind."""
    rng = np.random.default_rng(seed)
    inner = rng.standard_normal((SURFACE, FOLDS)) / np.sqrt(SURFACE)
    outer = rng.standard_normal((FOLDS, dim))
    places = rng.standard_normal((rows + PROBES + queries, SURFACE)) @ (STEEPNESS * inner)
    return VectorSet(*np.split(unit_vectors(np.tanh(places) @ outer), [rows, rows + PROBES]))


def uneven_vectors(rows: int, dim: int, queries: int, seed: int = 0) -> VectorSet:
    """Unit vectors in clusters of very unequal size and spread, each flat in a few directions of its own;
    queries are shifted and noisier.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((UNEVEN, dim))
    flat = rng.standard_normal((UNEVEN, RANK, dim)) / np.sqrt(RANK)
    spreads = rng.lognormal(0.0, 0.5, UNEVEN)
    shares = rng.dirichlet(np.full(UNEVEN, 0.3))
    gap = GAP * rng.standard_normal(dim)

    def some(size: int, blur: float, shift: float) -> Float32[np.ndarray, "_ d"]:
        drawn = rng.choice(UNEVEN, size, p=shares)
        vectors = np.empty((size, dim), np.float32)
        for cluster in np.unique(drawn):
            mine = np.flatnonzero(drawn == cluster)
            inner = rng.standard_normal((len(mine), RANK)) @ flat[cluster]
            noise = blur * rng.standard_normal((len(mine), dim))
            vectors[mine] = centres[cluster] + spreads[cluster] * inner + noise + shift * gap
        return unit_vectors(vectors)

    return VectorSet(some(rows, 0.2, 0.0), some(PROBES, 0.5, 0.5), some(queries, 0.5, 0.5))


def noise_vectors(rows: int, dim: int, queries: int, seed: int = 0) -> VectorSet:
    """Unit vectors anywhere."""
    every = np.random.default_rng(seed).standard_normal((rows + PROBES + queries, dim), np.float32)
    return VectorSet(*np.split(unit_vectors(every), [rows, rows + PROBES]))


def unit_vectors(vectors: Float[np.ndarray, "... d"]) -> Float32[np.ndarray, "... d"]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


class VectorSetError(MultifoldError):
    """Features that are no use for this."""


def encoded_vectors(folder: Path, space: Space, queries: int, seed: int = 0) -> VectorSet:
    """The view vectors of items, and caption vectors as queries."""
    if space.metric != "ip":
        raise VectorSetError(f"{space.vector_id} compares by distance; this is about inner products.")
    seen, said = [], []
    for rows, features in feature_shards.read_features(folder, space.vector_id):
        views = np.array([row.kind == "view" for row in rows], bool)
        captions = np.array([row.kind == "caption" for row in rows], bool)
        seen.append(space.vectors(features[views]))
        said.append(apply_signs(space.vectors(features[captions]), space.query_signs))
    asked = np.random.default_rng(seed).permutation(np.concatenate(said))[: PROBES + queries]
    if len(asked) < PROBES + queries:
        raise VectorSetError(f"{folder} has {len(asked)} captions; {PROBES + queries} are asked with.")
    return VectorSet(np.concatenate(seen), asked[:PROBES], asked[PROBES:])


def _features(rows: int, dim: int, queries: int, seed: int) -> list[Float64[np.ndarray, "_ d"]]:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLUSTERS, dim))
    gap = GAP * rng.standard_normal(dim)
    weights = rng.dirichlet(np.full(CLUSTERS, 0.5))
    shapes = ((rows, SPREAD, 0.0), (PROBES, BLUR, 1.0), (queries, BLUR, 1.0))
    return [
        centres[rng.choice(CLUSTERS, size, p=weights)] + blur * rng.standard_normal((size, dim)) + shift * gap
        for size, blur, shift in shapes
    ]
