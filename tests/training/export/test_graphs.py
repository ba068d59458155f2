"""Every geometry compiles into graphs that compute what it computes, for batches of any size."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError, GeometrySpec
from multifold.bundle.encoder import Encoder
from tests import tiny
from tests.training.towers import kinds as towers
from training.export.graphs import OPTIONAL, ParityError, check_geometry, write_geometry, write_graph
from training.geometries import GEOMETRIES, build
from training.geometries.base import EntailmentGeometry, Geometry, RescoringGeometry
from training.geometries.pointcloud import LinearCloud
from training.towers import build_model, image_spec

pytestmark = pytest.mark.usefixtures("tiny_models")

QUICK = ("clip", "lorentz", "oblique_geodesic")  # one of each kind of graph; an export takes seconds
NAMES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name)
    for name in sorted(GEOMETRIES)
]
SIZES = [(1, 1), (2, 3), (7, 2), (1, 40)]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    return tiny.build(folder).folder


@pytest.fixture(scope="module", params=NAMES)
def geometry(request: pytest.FixtureRequest) -> Geometry:
    half = {"frequencies": tiny.FEATURE // 2} if request.param in ("cloud_gaussian", "cloud_imq") else {}
    return build(request.param, tiny.FEATURE // 2 if half else tiny.FEATURE, **half).requires_grad_(False)


@pytest.fixture(scope="module")
def encoder(geometry: Geometry, pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny towers with this geometry behind them."""
    return Encoder(dressed(pristine, tmp_path_factory.mktemp("dressed") / geometry.name, geometry))


def dressed(pristine: Path, folder: Path, geometry: Geometry) -> bundles.Bundle:
    shutil.copytree(pristine, folder)
    write_geometry(geometry, folder)
    signs = geometry.query_signs
    spec = GeometrySpec(
        name=geometry.name,
        feature_dim=geometry.feature_dim,
        dim=geometry.dim,
        metric=geometry.metric,
        query_signs=None if signs is None else tuple(signs.tolist()),
    )
    return bundles.save(replace(bundles.load(pristine), folder=folder, geometry=spec))


def features(geometry: Geometry, rows: int, seed: int) -> Tensor:
    return torch.randn(rows, geometry.feature_dim, generator=torch.Generator().manual_seed(seed))


def test_graphs_agree_for_batches_of_any_size(geometry: Geometry, encoder: Encoder) -> None:
    for queries, rows in SIZES:
        query, gallery = features(geometry, queries, 0), features(geometry, rows, 1)
        assert check_geometry(geometry, encoder, query, gallery) < 1e-5
        k = torch.rand((), generator=torch.Generator().manual_seed(queries)).item()
        if isinstance(geometry, EntailmentGeometry):
            energy = encoder.entail(query.numpy(), gallery.numpy(), k)
            np.testing.assert_allclose(energy, geometry.entail(query, gallery, k), atol=1e-4)


def test_optional_graphs_are_there_where_they_are_of_use(geometry: Geometry, encoder: Encoder) -> None:
    rescores, entails = isinstance(geometry, RescoringGeometry), isinstance(geometry, EntailmentGeometry)
    assert [encoder.bundle.has(name) for name in OPTIONAL] == [rescores, entails]
    assert encoder.rescores == rescores
    query = features(geometry, 2, 0).numpy()
    vectors = encoder.vectors(query)
    if not rescores:
        with pytest.raises(BundleError, match=rf"\(geometry {geometry.name}\) needs no rescoring"):
            encoder.rescore(vectors, vectors[None].repeat(2, 0))
    if not entails:
        with pytest.raises(
            BundleError, match="knows nothing of entailment; Euclidean and Lorentz geometries do"
        ):
            encoder.entail(query, query, 0.1)


def test_nothing_gives_nothing(geometry: Geometry, encoder: Encoder) -> None:
    """The runtime itself dies of some empty arrays, not even raising."""
    nothing, some = features(geometry, 0, 0).numpy(), features(geometry, 2, 0).numpy()
    assert encoder.vectors(nothing).shape == (0, geometry.dim)
    if encoder.rescores:
        vectors = encoder.vectors(some)
        assert encoder.rescore(vectors, np.empty((2, 0, geometry.dim), np.float32)).shape == (2, 0)
        assert encoder.rescore(vectors[:0], np.empty((0, 3, geometry.dim), np.float32)).shape == (0, 3)
    if encoder.bundle.has("entail.onnx"):
        assert encoder.entail(nothing, some, 0.1).shape == (0, 2)
        assert encoder.entail(some, nothing, 0.1).shape == (2, 0)


def test_a_graph_of_another_geometry_is_found_out(geometry: Geometry, encoder: Encoder) -> None:
    other = build("euclidean" if geometry.name in ("clip", "elliptic") else "clip", tiny.FEATURE)
    with pytest.raises(ParityError, match=r"geometry\.onnx (differs from the model by|answers in the shape)"):
        check_geometry(other, encoder, features(other, 3, 0), features(other, 3, 1))


def test_what_orders_results_decides_the_vector_id(encoder: Encoder) -> None:
    """A new way of rescoring asks for a new collection; a new cone does not."""
    for name in filter(encoder.bundle.has, OPTIONAL):
        changed = replace(encoder.bundle, files={**encoder.bundle.files, name: "0" * 64})
        assert (changed.vector_id != encoder.vector_id) == (name == "rescore.onnx")
        assert changed.bundle_id != encoder.bundle.bundle_id


def test_no_graph_of_an_earlier_geometry_stays(tmp_path: Path) -> None:
    for name in OPTIONAL:
        (tmp_path / name).write_bytes(b"of a geometry that was")
    write_geometry(build("clip", 4), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["geometry.onnx"]


class Reader(nn.Module):
    """What a tower does with a cloud: some numbers become points, weights, and what of them exists."""

    def __init__(self, cloud: LinearCloud) -> None:
        super().__init__()
        self.cloud = cloud

    def forward(self, numbers: Tensor) -> Tensor:
        return self.cloud.embed(numbers[..., :8], numbers[..., 8], numbers[..., 9] > 0)


def test_an_embedding_is_exported_with_its_frequencies(tmp_path: Path) -> None:
    cloud = build("cloud_imq", 8, frequencies=16)
    assert isinstance(cloud, LinearCloud)
    reader = Reader(cloud)
    rows = {0: torch.export.Dim("rows", min=1, max=64)}
    write_graph(reader, "forward", {"numbers": torch.ones(2, 5, 10)}, [rows], tmp_path / "reader.onnx")
    session = ort.InferenceSession(tmp_path / "reader.onnx")
    for seed, count in enumerate((1, 2, 7)):
        numbers = torch.randn(count, 5, 10, generator=torch.Generator().manual_seed(seed))
        (found,) = session.run(None, {"numbers": numbers.numpy()})
        np.testing.assert_allclose(found, reader(numbers), atol=1e-5)


def exported(
    tower: nn.Module, example: Tensor, dynamic: dict[int, object], path: Path
) -> onnxruntime.InferenceSession:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecations
        program = torch.onnx.export(
            tower, (example,), dynamo=True, input_names=["in"], dynamic_shapes=(dynamic,), verbose=False
        )
    assert program is not None
    program.save(path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def agree(tower: nn.Module, session: onnxruntime.InferenceSession, observed: Tensor) -> None:
    with torch.inference_mode():
        expected = tower(observed).numpy()
    found = session.run(None, {"in": observed.numpy()})[0]
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.slow
@pytest.mark.parametrize("kind", towers.KINDS)
def test_graphs_compute_what_towers_do(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    wanted = towers.recipe(*towers.KINDS[kind])
    model = build_model(wanted, towers.VOCABULARY).eval()
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=12)
    pictures, ids = towers.pixels(image_spec(wanted.image).size, 5), towers.tokens()
    image = exported(model.image, pictures[:2], {0: batch}, tmp_path / "image.onnx")
    dynamic = model.text.length == "dynamic"
    text = exported(
        model.text, ids[:2], {0: batch, 1: length} if dynamic else {0: batch}, tmp_path / "text.onnx"
    )
    for count in (1, 3, 5):
        agree(model.image, image, pictures[:count])
    for count in (1, 3, 4):
        agree(model.text, text, ids[:count])
    if dynamic:
        agree(model.text, text, ids[:2, :5])
