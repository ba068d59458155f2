"""A flat search over index vectors finds what the similarity finds; mixed queries are one vector."""

from math import log, sqrt

import numpy as np
import pytest
import torch
from torch import Tensor

from multifold.scores import apply_signs, index_scores
from training.geometries import GEOMETRIES, build
from training.geometries.base import Geometry, RescoringGeometry

DIM = 24
INDEXED = sorted(name for name, geometry in GEOMETRIES.items() if not issubclass(geometry, RescoringGeometry))
LORENTZ = [("lorentz", 0.1), ("lorentz", 4.0), ("lorentz_squared", 10.0)]


def features(geometry: Geometry, rows: int, seed: int, length: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, geometry.feature_dim, generator=generator)
    return noise * (length / sqrt(geometry.feature_dim))


def vectors(geometry: Geometry, rows: Tensor, *, query: bool) -> np.ndarray:
    with torch.no_grad():
        found = geometry.index_vectors(rows).numpy()
    signs = geometry.query_signs
    return apply_signs(found, signs.numpy()) if query and signs is not None else found


def search(geometry: Geometry, query: Tensor, gallery: Tensor) -> np.ndarray:
    queries, rows = vectors(geometry, query, query=True), vectors(geometry, gallery, query=False)
    return index_scores(queries, rows, geometry.metric)


def assert_ranks_alike(found: np.ndarray, expected: np.ndarray, slack: float) -> None:
    """In the order of what was found, what was expected never rises by more than rounding."""
    ordered = np.take_along_axis(expected, np.argsort(-found, axis=1, kind="stable"), axis=1)
    assert np.diff(ordered, axis=1).max() <= slack
    assert np.diff(ordered, axis=1).min() < -100 * slack


@pytest.mark.parametrize("length", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("name", INDEXED)
def test_a_flat_search_ranks_as_the_similarity_does(name: str, length: float) -> None:
    geometry = build(name, DIM)
    query, gallery = features(geometry, 7, 0, length), features(geometry, 200, 1, length)
    with torch.no_grad():
        expected = geometry.similarity(query, gallery).numpy()
    assert_ranks_alike(search(geometry, query, gallery), expected, slack=1e-5 * np.ptp(expected))
    assert geometry.index_vectors(query).shape == (7, geometry.dim)


@pytest.mark.parametrize(("name", "curvature"), LORENTZ)
def test_lorentz_search_is_exact_for_a_learned_curvature(name: str, curvature: float) -> None:
    """One plain inner product finds the hyperbolic neighbours, whatever the space has learned to be."""
    geometry = build(name, DIM)
    with torch.no_grad():
        geometry.log_curvature.fill_(log(curvature))  # type: ignore[operator]
    query, gallery = features(geometry, 16, 2, 2.0), features(geometry, 500, 3, 2.0)
    with torch.no_grad():
        expected = geometry.double().similarity(query.double(), gallery.double()).numpy()
    found = search(geometry.float(), query, gallery)
    assert np.array_equal(found.argmax(1), expected.argmax(1))
    top = np.sort(np.argsort(-found, axis=1)[:, :10], axis=1)
    assert np.array_equal(top, np.sort(np.argsort(-expected, axis=1)[:, :10], axis=1))


def test_lorentz_search_near_the_origin_is_as_good_as_float32() -> None:
    """Where features are a tenth long, what the search confuses is all but equally far."""
    geometry = build("lorentz", DIM)
    query, gallery = features(geometry, 16, 2, 0.1), features(geometry, 500, 3, 0.1)
    with torch.no_grad():
        expected = geometry.double().similarity(query.double(), gallery.double()).numpy()
    assert_ranks_alike(search(geometry.float(), query, gallery), expected, slack=2e-5 * np.ptp(expected))


def test_geodesic_search_is_candidates_and_a_second_look() -> None:
    geometry = build("oblique_geodesic", DIM, m=4)
    assert isinstance(geometry, RescoringGeometry)
    query, gallery = features(geometry, 9, 4), features(geometry, 300, 5)
    with torch.no_grad():
        expected = geometry.similarity(query, gallery)
        candidates = torch.from_numpy(np.argsort(-search(geometry, query, gallery), axis=1)[:, :60].copy())
        rows = geometry.index_vectors(gallery)[candidates]
        rescored = geometry.rescore(geometry.index_vectors(query), rows)
    torch.testing.assert_close(rescored, expected.gather(1, candidates), rtol=1e-5, atol=1e-5)
    best = candidates.gather(1, rescored.topk(10).indices)
    assert torch.equal(best.sort(1).values, expected.topk(10).indices.sort(1).values)
    assert not torch.equal(candidates[:, :10].sort(1).values, best.sort(1).values)


@pytest.mark.parametrize("name", INDEXED)
def test_a_mixed_query_is_one_vector(name: str) -> None:
    """Inner products: Σwq, any signs. L2: the weighted centre, if the weights sum to more than nothing."""
    geometry = build(name, DIM)
    queries = vectors(geometry, features(geometry, 3, 6), query=True)
    gallery = vectors(geometry, features(geometry, 200, 7), query=False)
    weights = np.array([1.0, 0.7, -0.4], np.float32)
    mixed = weights @ queries / (weights.sum() if geometry.metric == "l2" else 1)
    expected = weights @ index_scores(queries, gallery, geometry.metric)
    found = index_scores(mixed[None], gallery, geometry.metric)
    assert_ranks_alike(found, expected[None], slack=1e-5 * np.ptp(expected))


@pytest.mark.parametrize("name", ["oblique", "oblique_multi"])
def test_one_token_cut_and_many_tokens_are_the_same_sum(name: str) -> None:
    geometry = build(name, DIM, m=4)
    query, gallery = features(geometry, 5, 8), features(geometry, 6, 9)
    found = search(geometry, query, gallery)
    parts = [torch.nn.functional.normalize(rows.unflatten(1, (4, 6)), dim=-1) for rows in (query, gallery)]
    np.testing.assert_allclose(found, torch.einsum("abd,cbd->ac", *parts), atol=1e-6)
