"""The contract of every geometry: golden numbers, bounds of what is learned, parameters."""

import json
import subprocess
import sys
from functools import partial
from math import e, inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from multifold.errors import MultifoldError
from multifold.scores import apply_signs, index_scores
from training.geometries import GEOMETRIES, build
from training.geometries.base import EntailmentGeometry, Geometry, RescoringGeometry
from training.geometries.lorentz import Lorentz

GOLDEN_FILE = Path(__file__).parents[2] / "golden" / "geometries.json"
GOLDEN: dict[str, Any] = json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))
DIM = 24
POINTWISE = sorted(name for name in GEOMETRIES if not name.startswith("cloud"))
CLOSE = {
    torch.float32: partial(torch.testing.assert_close, rtol=2e-5, atol=2e-5),
    torch.float64: partial(torch.testing.assert_close, rtol=1e-7, atol=1e-8),  # as many digits as are stored
}


def given(precision: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.tensor(GOLDEN["query"], dtype=precision), torch.tensor(GOLDEN["gallery"], dtype=precision)


def noise(rows: int, length: int) -> Tensor:
    return torch.randn(rows, length, generator=torch.Generator().manual_seed(rows))


def golden(name: str, part: str) -> tuple[Geometry, dict[str, Any]]:
    entry = GOLDEN[part][name]
    return build(name, len(GOLDEN["query"][0]), **entry["params"]), entry


def gradient(value: Tensor, parameter: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(value, parameter)
    return found


def test_the_golden_numbers_are_what_their_program_writes(tmp_path: Path) -> None:
    program = tmp_path / "make_geometries.py"
    program.write_bytes(GOLDEN_FILE.with_name("make_geometries.py").read_bytes())
    subprocess.run([sys.executable, program], check=True)
    written = json.loads((tmp_path / GOLDEN_FILE.name).read_text(encoding="utf-8"))
    torch.testing.assert_close(written, GOLDEN, rtol=0, atol=1e-9)


def test_every_geometry_has_golden_numbers() -> None:
    assert {*GOLDEN["flat"], *GOLDEN["clouds"]["named"]} == set(GEOMETRIES)
    assert set(GOLDEN["cones"]) == {n for n, g in GEOMETRIES.items() if issubclass(g, EntailmentGeometry)}


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", POINTWISE)
def test_similarities_and_logits_are_the_golden_ones(name: str, precision: torch.dtype) -> None:
    geometry, entry = golden(name, "flat")
    query, gallery = given(precision)
    expected = torch.tensor(entry["similarity"], dtype=precision)
    assert_close = CLOSE[precision]
    with torch.no_grad():
        assert_close(geometry.double().similarity(query, gallery), expected)
        logits = geometry.logits(query, gallery)
    torch.testing.assert_close(logits, expected * entry["scale"], rtol=1e-4, atol=1e-4, check_dtype=False)


@pytest.mark.parametrize("k", sorted(GOLDEN["cones"]["lorentz"]["energy"]))
@pytest.mark.parametrize("name", sorted(GOLDEN["cones"]))
def test_entailment_energies_are_the_golden_ones(name: str, k: str) -> None:
    geometry, entry = golden(name, "cones")
    assert isinstance(geometry, EntailmentGeometry)
    for precision, assert_close in CLOSE.items():
        query, gallery = given(precision)
        with torch.no_grad():
            found = geometry.to(precision).entail(query, gallery, float(k))
        assert_close(found, torch.tensor(entry["energy"][k], dtype=precision))


@pytest.mark.parametrize("name", sorted(GOLDEN["cones"]))
def test_the_root_entails_everything(name: str) -> None:
    geometry, _ = golden(name, "cones")
    assert isinstance(geometry, EntailmentGeometry)
    query, gallery = given(torch.float32)
    energy = geometry.entail(geometry.root(query)[None], torch.cat([query, 40 * gallery]), 0.1)
    assert (energy <= 0).all()


@pytest.mark.parametrize("name", sorted(GOLDEN["cones"]))
def test_a_cone_holds_what_lies_behind_its_tip(name: str) -> None:
    geometry, _ = golden(name, "cones")
    assert isinstance(geometry, EntailmentGeometry)
    query, _ = given(torch.float32)
    behind, between = (
        geometry.entail(query, 1.5 * query, 0.1).diag(),
        geometry.entail(query, 0.5 * query, 0.1).diag(),
    )
    assert (behind < 0).all()
    assert (between > 2).all()


def test_ends_of_paths_to_the_root() -> None:
    sample = noise(9, DIM)
    for name in POINTWISE:
        geometry = build(name, DIM)
        root = geometry.root(sample)
        assert root.shape == (geometry.feature_dim,)
        expected = (
            torch.zeros(DIM)
            if isinstance(geometry, EntailmentGeometry)
            else geometry.index_vectors(sample).mean(0)
        )
        torch.testing.assert_close(root, expected)


@pytest.mark.parametrize("name", sorted(GEOMETRIES))
def test_the_temperature_keeps_its_bounds_and_its_gradient(name: str) -> None:
    geometry = build(name, DIM, scale=3.0, scale_min=2.0, scale_max=4.0)
    (parameter,) = geometry.temperature.parameters()
    query, gallery = noise(2, geometry.feature_dim), noise(3, geometry.feature_dim)
    for beyond, bound in ((50.0, 4.0), (-50.0, 2.0)):
        with torch.no_grad():
            parameter.fill_(beyond)
        ratio = geometry.logits(query, gallery) / geometry.similarity(query, gallery)
        torch.testing.assert_close(ratio, torch.full_like(ratio, bound))
        geometry.clamp()
        assert gradient(geometry.logits(query, gallery).sum(), parameter).abs() > 0
        assert geometry.learned()["scale"] == pytest.approx(bound)


@pytest.mark.parametrize(
    ("name", "scale", "low", "high"),
    [
        ("clip", 1 / 0.07, 0.0, log(100)),
        ("elliptic", 1 / 0.07, 0.0, log(100)),
        ("euclidean", 1 / 0.07, 0.0, log(100)),
        ("lorentz", 1 / 0.07, 0.0, log(100)),
        ("euclidean_squared", 1.0, 0.0, inf),
        ("lorentz_squared", 1.0, 0.0, inf),
        ("oblique", 1 / 0.07, 0.0, inf),
        ("oblique_geodesic", 1 / 0.07, 0.0, inf),
        ("cloud_linear", 14.285714, 1.0, 100.0),
        ("cloud_imq", 14.285714, 1.0, 100.0),
    ],
)
def test_scales_start_and_end_where_the_papers_have_them(
    name: str, scale: float, low: float, high: float
) -> None:
    temperature = build(name, DIM).temperature
    assert temperature().item() == pytest.approx(scale, rel=1e-6)
    assert (temperature.low, temperature.high) == pytest.approx((low, high))


def test_the_papers_other_scales_can_be_asked_for() -> None:
    euclip = build("euclidean_squared", DIM, scale=1 / e, scale_min=0.0)
    assert euclip.learned()["scale"] == pytest.approx(1 / e)
    euclip.clamp()
    assert euclip.learned()["scale"] == pytest.approx(1 / e)
    large_oblique = build("oblique", DIM, m=8, scale=1, scale_max=100 / 8)
    assert large_oblique.temperature.high == pytest.approx(log(12.5))
    fixed = build("clip", DIM, scale=1 / 0.03, scale_learned=0)
    assert not any(parameter.requires_grad for parameter in fixed.parameters())
    assert build("oblique", DIM, scale=e**5.31).learned()["scale"] == pytest.approx(e**5.31, rel=1e-5)


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_curvature_stays_between_its_bounds(in_graph: bool) -> None:
    geometry = build("lorentz", DIM, curvature_in_graph=in_graph)
    assert isinstance(geometry, Lorentz)
    query, gallery = noise(2, DIM), noise(3, DIM)
    for beyond, bound in ((5.0, 10.0), (-5.0, 0.1)):
        geometry.log_curvature.data.fill_(beyond)
        assert geometry.learned()["curvature"] == pytest.approx(bound)
        geometry.clamp()
        slope = gradient(geometry.logits(query, gallery).sum(), geometry.log_curvature)
        assert bool(slope == 0) == in_graph


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("cube", {}, "no geometry 'cube'; there are: clip, elliptic"),
        ("clip", {"m": 4}, "'clip' has no parameter 'm'; it has: scale, scale_min"),
        ("oblique", {"m": 7}, "length 24 cannot be cut into 7 spheres"),
        ("oblique", {"m": 2.5}, "'m' is a whole number, not 2.5"),
        ("clip", {"scale_learned": 2}, "'scale_learned' is 0 or 1, not 2"),
        ("clip", {"scale": 200.0}, "a scale between 1 and 100 can't start at 200"),
        ("clip", {"scale": 0.0, "scale_min": 0.0}, "can't start at 0"),
        ("lorentz", {"curvature": 11.0}, "a curvature lies between 0.1 and 10"),
        ("cloud_gaussian", {"sigma": 0.0}, "no kernel has width 0"),
        ("cloud_imq", {"kernel_share": 1.5}, "a share lies between 0 and 1"),
        ("cloud_imq", {"frequencies": 0}, "no kernel has width 0.5, share 0.333 and 0 frequencies"),
    ],
)
def test_what_cannot_be_built_says_why(name: str, params: dict[str, float], words: str) -> None:
    with pytest.raises(MultifoldError, match=words):
        build(name, DIM, **params)


def test_a_recipe_gives_counts_and_switches_as_floats() -> None:
    geometry = build("oblique_geodesic", DIM, m=4.0, scale_learned=1.0)
    assert geometry.index_vectors(noise(2, DIM)).unflatten(1, (4, 6)).norm(dim=-1).allclose(torch.ones(2, 4))


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
