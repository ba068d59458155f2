"""Nothing that a tower may emit makes a geometry's value or gradient anything but a number."""

from math import pi

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from training.geometries import GEOMETRIES, build
from training.geometries.base import EntailmentGeometry, Geometry
from training.geometries.lorentz import FARTHEST, arsinh_squared
from training.geometries.numerics import arccos
from training.geometries.pointcloud import LinearCloud

DIM = 8
NAMES = sorted(GEOMETRIES)
CONES = sorted(name for name, geometry in GEOMETRIES.items() if issubclass(geometry, EntailmentGeometry))
CLOUDS = sorted(name for name, geometry in GEOMETRIES.items() if issubclass(geometry, LinearCloud))

lengths = st.one_of(st.just(0.0), st.floats(-25, 15).map(lambda power: 10**power))
nudges = st.sampled_from([0.0, 1e-12, 1e-7, 1e-6, 1e-3, 1.0])
seeds = st.integers(0, 2**32 - 1)


def small(name: str) -> Geometry:
    """Few frequencies are as hard as many."""
    return build(name, DIM, **({"frequencies": 8} if name in ("cloud_gaussian", "cloud_imq") else {}))


def rays(dim: int, length: float, nudge: float, seed: int) -> tuple[Tensor, Tensor]:
    """Two features of this length; others on the same rays, opposite, at the origin, and all but the same."""
    generator = torch.Generator().manual_seed(seed)
    units = torch.nn.functional.normalize(torch.randn(2, dim, generator=generator), dim=1)
    query = units * length
    near = query * (1 + nudge) + nudge * torch.randn(2, dim, generator=generator) * length
    return query, torch.cat([near, query, -query, 2 * query, units, torch.zeros(1, dim)])


def assert_finite(value: Tensor, *inputs: Tensor) -> None:
    assert torch.isfinite(value).all()
    for slope in torch.autograd.grad(value.sum(), inputs, allow_unused=True):
        assert slope is None or torch.isfinite(slope).all()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(length=lengths, nudge=nudges, seed=seeds)
@example(length=0.0, nudge=0.0, seed=0)
@example(length=1.0, nudge=0.0, seed=0)
@example(length=1e15, nudge=0.0, seed=0)
def test_values_and_gradients_are_numbers(name: str, length: float, nudge: float, seed: int) -> None:
    geometry = small(name)
    query, gallery = rays(geometry.feature_dim, length, nudge, seed)
    query.requires_grad_()
    gallery.requires_grad_()
    learned = [parameter for parameter in geometry.parameters() if parameter.requires_grad]
    assert_finite(geometry.logits(query, gallery), query, gallery, *learned)
    assert_finite(geometry.index_vectors(gallery), gallery)


@pytest.mark.parametrize("name", CONES)
@settings(max_examples=20)
@given(length=lengths, nudge=nudges, seed=seeds, k=st.sampled_from([0.0, 0.1, 3.0]))
@example(length=0.0, nudge=0.0, seed=0, k=0.0)
@example(length=1.0, nudge=0.0, seed=0, k=0.1)
def test_entailment_is_a_number(name: str, length: float, nudge: float, seed: int, k: float) -> None:
    geometry = small(name)
    assert isinstance(geometry, EntailmentGeometry)
    query, gallery = rays(geometry.feature_dim, length, nudge, seed)
    query.requires_grad_()
    gallery.requires_grad_()
    for energy in (geometry.entail(query, gallery, k), geometry.entail(gallery, query, k)):
        assert_finite(energy, query, gallery, *geometry.parameters())
        assert energy.abs().max() <= pi + 1e-5


@pytest.mark.parametrize("name", CLOUDS)
@settings(max_examples=20)
@given(length=lengths, weight=st.floats(-1e6, 1e6), seed=seeds)
def test_an_embedding_is_made_of_numbers(name: str, length: float, weight: float, seed: int) -> None:
    geometry = small(name)
    assert isinstance(geometry, LinearCloud)
    points = (length * torch.randn(2, 5, DIM, generator=torch.Generator().manual_seed(seed))).requires_grad_()
    weights = torch.full((2, 5), weight).requires_grad_()
    nobody = torch.zeros(2, 5, dtype=torch.bool)
    assert_finite(geometry.embed(points, weights), points, weights)
    assert (geometry.embed(points, weights, nobody) == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_autocast_costs_no_digits(name: str) -> None:
    """bfloat16 has three digits: products under autocast would rank neighbours at random."""
    geometry = small(name)
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(rows, geometry.feature_dim, generator=generator) for rows in (4, 9))
    with torch.no_grad():
        expected = geometry.logits(query, gallery)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(geometry.logits(query, gallery), expected)
            coarse = geometry.logits(query.bfloat16(), gallery.bfloat16())
        rounded = geometry.logits(query.bfloat16().float(), gallery.bfloat16().float())
    assert coarse.dtype == torch.float32
    assert torch.equal(coarse, rounded)


@pytest.mark.parametrize("name", CLOUDS)
def test_an_embedding_under_autocast_is_the_same(name: str) -> None:
    geometry = small(name)
    assert isinstance(geometry, LinearCloud)
    points, weights = torch.linspace(-1, 1, 80).view(2, 5, DIM).sin(), torch.ones(2, 5)
    with torch.autocast("cpu", torch.bfloat16):
        found = geometry.embed(points, weights)
    assert torch.equal(found, geometry.embed(points, weights))


@pytest.mark.parametrize("name", ["lorentz", "lorentz_squared"])
@pytest.mark.parametrize("apart", [1e-5, 1e-3, 1e-2, 0.5, 4.0])
def test_lorentz_distances_keep_their_digits(name: str, apart: float) -> None:
    """arccosh of the inner product would be off by 3e-4 at any distance below that."""
    geometry = build(name, DIM, curvature=1.0)
    origin, away = torch.zeros(1, DIM), torch.zeros(1, DIM)
    away[0, 0] = apart
    distance = geometry.similarity(origin, away).abs().item()
    assert distance == pytest.approx(apart ** (2 if name.endswith("squared") else 1), rel=1e-5)


def test_radii_end_at_the_farthest() -> None:
    geometry = build("lorentz", DIM)
    vectors = geometry.index_vectors(torch.eye(DIM)[:2] * torch.tensor([[FARTHEST], [1e9]]))
    torch.testing.assert_close(vectors[:, -1], torch.full((2,), 2.0**15), rtol=1e-4, atol=0)


def test_the_square_of_arsinh_is_smooth_at_nothing() -> None:
    square = torch.tensor([0.0, 1e-9, 9.9e-4, 1.01e-3, 2.0], dtype=torch.float64, requires_grad=True)
    found = arsinh_squared(square)
    torch.testing.assert_close(found[1:], square[1:].sqrt().asinh().square(), rtol=1e-9, atol=0)
    (slopes,) = torch.autograd.grad(found.sum(), square)
    assert slopes[0] == 1
    torch.testing.assert_close(slopes[2], slopes[3], rtol=1e-4, atol=0)


def test_an_angle_is_exact_at_its_ends() -> None:
    cosine = torch.tensor([-1.0000002, -1.0, -0.5, 0.0, 1.0, 1.0000002], requires_grad=True)
    found = arccos(cosine)
    torch.testing.assert_close(found, torch.tensor([pi, pi, 2 * pi / 3, pi / 2, 0.0, 0.0]))
    (slopes,) = torch.autograd.grad(found.sum(), cosine)
    assert slopes[[0, 1, 4, 5]].abs().max() == 0
    assert slopes[3] == -1


def test_gradients_are_right_at_the_origin() -> None:
    """From the origin every squared distance grows straight away from the other point."""
    for name, slope in (("euclidean_squared", 2 / DIM), ("lorentz_squared", 2.0)):
        here = torch.zeros(1, DIM, requires_grad=True)
        there = torch.zeros(1, DIM)
        there[0, 3] = 0.6
        (found,) = torch.autograd.grad(build(name, DIM).similarity(here, there).sum(), here)
        torch.testing.assert_close(found, slope * there)
