"""Weighted point clouds: their embedding, and how well random features stand for the exact kernel."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from training.geometries import build
from training.geometries.pointcloud import KernelCloud, LinearCloud

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden" / "geometries.json").read_text(encoding="utf-8")
)["clouds"]
NAMES = sorted(GOLDEN["named"])
KERNELS = ["cloud_gaussian", "cloud_imq"]
DIM = 32


def points(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    clouds, weights = (torch.tensor(GOLDEN[name], dtype=dtype) for name in ("points", "weights"))
    return clouds, weights, torch.tensor(GOLDEN["mask"])


def cloud(name: str, frequencies: int = 1024) -> LinearCloud:
    """The golden cloud with frequencies of its own."""
    params = GOLDEN["named"][name]["params"]
    count = {} if name == "cloud_linear" else {"frequencies": frequencies}
    geometry = build(name, len(GOLDEN["points"][0][0]), **params, **count)
    assert isinstance(geometry, LinearCloud)
    return geometry


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_are_the_golden_ones(name: str) -> None:
    entry, queries = GOLDEN["named"][name], GOLDEN["queries"]
    geometry = cloud(name, len(GOLDEN["phases"])).double()
    if isinstance(geometry, KernelCloud):
        geometry.directions, geometry.phases = (
            torch.tensor(GOLDEN[part], dtype=torch.float64) for part in ("directions", "phases")
        )
    with torch.no_grad():
        features = geometry.embed(*points(torch.float64))
        similarity = geometry.similarity(features[:queries], features[queries:])
        logits = geometry.logits(features[:queries], features[queries:])
    torch.testing.assert_close(features.numpy(), np.array(entry["embedding"]), rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(similarity.numpy(), np.array(entry["similarity"]), rtol=1e-7, atol=1e-6)
    torch.testing.assert_close(
        logits.numpy(), entry["scale"] * np.array(entry["similarity"]), rtol=1e-4, atol=1e-3
    )
    assert features.shape[1] == geometry.feature_dim == geometry.dim


def test_the_linear_cloud_is_exact() -> None:
    entry = GOLDEN["named"]["cloud_linear"]
    np.testing.assert_allclose(entry["similarity"], entry["exact"], atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_random_features_stand_for_the_exact_kernel(name: str) -> None:
    """Each draw is off, their average is not."""
    exact, queries = np.array(GOLDEN["named"][name]["exact"]), GOLDEN["queries"]
    geometry, generator = cloud(name), torch.Generator().manual_seed(0)
    draws = []
    for _ in range(100):
        geometry.resample(generator)
        features = geometry.embed(*points())
        draws.append((features[:queries] @ features[queries:].T).numpy())
    errors = (np.mean(draws, axis=0) - exact) / (np.std(draws, axis=0) / 10)
    assert np.abs(errors).max() < 4  # standard errors of the mean
    assert np.abs(np.mean(draws, axis=0) - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_itself_by_monte_carlo(name: str) -> None:
    """One point against another at a distance r: their waves' inner product is κ(r)."""
    geometry = build(name, DIM, frequencies=200_000, kernel_share=1.0)
    assert isinstance(geometry, KernelCloud)
    angles = torch.tensor([0.0, 0.1, 0.3, 0.8, 1.6, 3.0])
    circle = torch.zeros(6, 1, DIM)
    circle[:, 0, 0], circle[:, 0, 1] = angles.cos(), angles.sin()
    waves = geometry.embed(circle, torch.ones(6, 1))[:, DIM:]
    weight = 100 * np.tanh(1 / 100)
    found = (waves[:1] @ waves.T)[0].numpy() / weight**2
    squared = (2 * np.sin(angles.numpy() / 2)) ** 2
    exact = np.exp(-2 * squared) if name == "cloud_gaussian" else 0.5 / np.sqrt(0.25 + squared)
    np.testing.assert_allclose(found, exact, atol=0.012)


@pytest.mark.parametrize("name", KERNELS)
def test_the_error_falls_with_the_root_of_the_frequencies(name: str) -> None:
    """64 times the frequencies, an eighth of the error."""
    exact, queries = np.array(GOLDEN["named"][name]["exact"]), GOLDEN["queries"]

    def error(frequencies: int) -> float:
        geometry, generator = cloud(name, frequencies), torch.Generator().manual_seed(1)
        squares = []
        for _ in range(60):
            geometry.resample(generator)
            features = geometry.embed(*points()).numpy()
            squares.append((features[:queries] @ features[queries:].T - exact) ** 2)
        return float(np.sqrt(np.mean(squares)))

    few, many = error(64), error(4096)
    assert few / many == pytest.approx(8, rel=0.25)


def test_a_masked_point_does_not_exist() -> None:
    geometry = cloud("cloud_imq")
    clouds, weights, mask = points()
    shorter = [
        geometry.embed(c[m][None], w[m][None])[0] for c, w, m in zip(clouds, weights, mask, strict=True)
    ]
    torch.testing.assert_close(geometry.embed(clouds, weights, mask), torch.stack(shorter))


@pytest.mark.parametrize("name", NAMES)
def test_a_cloud_is_the_sum_of_what_its_points_add(name: str) -> None:
    """Each point adds what it is as a cloud of its own, over the number of points."""
    geometry = cloud(name, 16)
    clouds, weights, mask = points()
    added = geometry.embed_each(clouds, weights, mask)
    torch.testing.assert_close(added.sum(1), geometry.embed(clouds, weights, mask))
    for row, exists in enumerate(mask):
        assert not added[row][~exists].any()
        alone = geometry.embed(clouds[row][exists][:, None], weights[row][exists][:, None])
        torch.testing.assert_close(added[row][exists], alone / exists.sum())


def test_weights_are_signed_and_end_at_a_hundred() -> None:
    geometry = build("cloud_linear", 4)
    assert isinstance(geometry, LinearCloud)
    embedded = geometry.embed(torch.eye(4)[:3, None], torch.tensor([[-1e9], [0.5], [1e9]]))
    torch.testing.assert_close(embedded.diagonal(), torch.tensor([-100.0, 0.5, 100.0]), rtol=1e-4, atol=0)


def test_draws_are_fresh_alike_on_all_ranks_and_kept() -> None:
    one, two = (build("cloud_imq", DIM) for _ in range(2))
    assert not torch.equal(one.state_dict()["directions"], two.state_dict()["directions"])
    for geometry in (one, two):
        geometry.resample(torch.Generator().manual_seed(7))
    assert torch.equal(one.state_dict()["directions"], two.state_dict()["directions"])
    before = {name: value.clone() for name, value in one.state_dict().items()}
    one.resample(torch.Generator().manual_seed(8))
    assert not torch.equal(one.state_dict()["phases"], before["phases"])
    one.load_state_dict(before)
    assert torch.equal(one.state_dict()["phases"], two.state_dict()["phases"])


def test_a_cloud_without_a_kernel_is_the_linear_one() -> None:
    clouds, weights, mask = points()
    linear = cloud("cloud_linear").embed(clouds, weights, mask)
    mixed = build("cloud_gaussian", linear.shape[1], kernel_share=0.0)
    assert isinstance(mixed, LinearCloud)
    torch.testing.assert_close(mixed.embed(clouds, weights, mask)[:, : linear.shape[1]], linear)


@pytest.mark.parametrize("name", NAMES)
def test_positive_weights(name: str) -> None:
    """Of raw weights −3 and 2, log(1 + e⁻³) and log(1 + e²), and nothing for the point that is masked."""
    positive, signed = (build(name, DIM, positive=given) for given in (1, 0))
    assert isinstance(positive, LinearCloud)
    assert isinstance(signed, LinearCloud)
    raw, mask = torch.tensor([[-3.0, 2.0, 5.0]]), torch.tensor([[True, True, False]])
    torch.testing.assert_close(positive.weigh(raw, mask), torch.tensor([[0.048587, 2.126928, 0.0]]) / 2)
    assert signed.weigh(raw, mask)[0, 0] < 0


@pytest.mark.parametrize("name", KERNELS)
def test_fewer_random_features(name: str) -> None:
    geometry = cloud(name)
    assert isinstance(geometry, KernelCloud)
    geometry.redraw(7, torch.Generator().manual_seed(0))
    assert geometry.embed(*points()).shape[1] == geometry.feature_dim == geometry.dim
    assert geometry.dim == len(GOLDEN["points"][0][0]) + 7
