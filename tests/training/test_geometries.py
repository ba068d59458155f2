"""The contract of every geometry, and the sphere's own numbers."""

import numpy as np
import pytest
import torch

from multifold.errors import MultifoldError
from multifold.scores import index_scores
from training.geometries import GEOMETRIES, build
from training.geometries.base import Geometry

DIM = 24


@pytest.fixture(params=sorted(GEOMETRIES))
def geometry(request: pytest.FixtureRequest) -> Geometry:
    return build(request.param, DIM)


def features(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, DIM, generator=torch.Generator().manual_seed(seed))


def test_a_flat_search_ranks_as_the_similarity_does(geometry: Geometry) -> None:
    query, gallery = features(7, 0), features(50, 1)
    signs = 1 if geometry.query_signs is None else geometry.query_signs
    with torch.no_grad():
        expected = geometry.similarity(query, gallery)
        queries = (geometry.index_vectors(query) * signs).numpy()
        found = index_scores(queries, geometry.index_vectors(gallery).numpy(), geometry.metric)
    assert np.array_equal(found.argsort(1), expected.numpy().argsort(1))
    assert geometry.index_vectors(query).shape == (7, geometry.dim)


def test_gradients_are_finite_at_the_origin_and_at_coincident_points(geometry: Geometry) -> None:
    query = torch.cat([torch.zeros(1, DIM), features(2, 3)]).requires_grad_()
    geometry.logits(query, query.detach()).sum().backward()
    assert query.grad is not None
    assert torch.isfinite(query.grad).all()


def test_clip_is_the_cosine_under_its_temperature() -> None:
    geometry = build("clip", DIM)
    query, gallery = features(5, 4).double().numpy(), features(6, 5).double().numpy()
    cosines = query @ gallery.T / np.outer(np.linalg.norm(query, axis=1), np.linalg.norm(gallery, axis=1))
    found = geometry.logits(torch.tensor(query).float(), torch.tensor(gallery).float())
    np.testing.assert_allclose(found.detach().numpy(), cosines / 0.07, atol=1e-5)


def test_the_temperature_keeps_its_bounds() -> None:
    geometry = build("clip", DIM)
    for raw, scale in ((50.0, 100.0), (-3.0, 1.0)):
        with torch.no_grad():
            geometry.temperature.log_scale.fill_(raw)  # type: ignore[union-attr,operator]
        same = geometry.logits(features(1, 6), features(1, 6))
        assert same.item() == pytest.approx(scale, rel=1e-5)


def test_an_unknown_geometry_lists_the_known_ones() -> None:
    with pytest.raises(MultifoldError, match="no geometry 'cube'; there are: clip"):
        build("cube", DIM)
