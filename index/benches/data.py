"""Vectors that imitate collections: clusters of uneven sizes, and queries that lie apart from them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from multifold.types import Vectors

CLUSTERS = 400
GAP = 1.0  # how far queries are shifted, all the same way, in standard deviations of a coordinate
SPREAD, BLUR = 0.9, 1.2  # of rows and of queries around their cluster's centre


@dataclass(frozen=True)
class Scene:
    """Rows, queries to measure recall with while building, and queries to compare with."""

    rows: Float32[np.ndarray, "g d"]
    probes: Float32[np.ndarray, "p d"]
    queries: Float32[np.ndarray, "q d"]


def sphere(rows: int, dim: int, queries: int, seed: int = 0) -> Scene:
    """Unit vectors, with a gap between the sides as contrastive encoders have it."""
    made = _features(rows, dim, queries, seed)
    return Scene(
        *(np.asarray(part / np.linalg.norm(part, axis=1, keepdims=True), np.float32) for part in made)
    )


def lorentz(rows: int, dim: int, queries: int, curvature: float, radius: float, seed: int = 0) -> Scene:
    """Points of the hyperboloid of a curvature, around a radius; queries have their signs already."""
    rng = np.random.default_rng(seed + 1)
    gallery, probes, asked = (
        _lifted(part, curvature, radius * rng.uniform(0.5, 1.5, (len(part), 1)))
        for part in _features(rows, dim - 1, queries, seed)
    )
    signs = np.array([1.0] * (dim - 1) + [-1.0], np.float32)
    return Scene(gallery, probes * signs, asked * signs)


def _lifted(
    points: Float64[np.ndarray, "b n"], curvature: float, radii: Float64[np.ndarray, "b 1"]
) -> Vectors:
    """Directions become points at these distances from the root: sinh(√c·r)/√c in space, then time."""
    root = np.sqrt(curvature)
    space = points / np.linalg.norm(points, axis=1, keepdims=True) * np.sinh(root * radii) / root
    time = np.sqrt(1 / curvature + (space**2).sum(axis=1, keepdims=True))
    return np.asarray(np.concatenate([space, time], axis=1), np.float32)


def _features(rows: int, dim: int, queries: int, seed: int) -> list[Float64[np.ndarray, "_ d"]]:
    rng = np.random.default_rng(seed)
    centres, gap = rng.standard_normal((CLUSTERS, dim)), GAP * rng.standard_normal(dim)
    weights = rng.dirichlet(np.full(CLUSTERS, 0.5))
    shapes = ((rows, SPREAD, 0.0), (256, BLUR, 1.0), (queries, BLUR, 1.0))
    return [
        centres[rng.choice(CLUSTERS, size, p=weights)] + blur * rng.standard_normal((size, dim)) + shift * gap
        for size, blur, shift in shapes
    ]
