"""The encoder that ships with the repository: whole, small, as good as it says; it knows fresh furniture."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from jaxtyping import Float32
from PIL import Image

from multifold.bundle import bundle as bundles
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import pixels
from renderers.cameras import rig
from renderers.contracts import LOOK, RenderEngineError
from renderers.mesh.load import load_model
from renderers.orders import MeshSource, ViewOrder
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE
from training.data.furniture.generator import make
from training.data.furniture.gltf import glb
from training.retrieval import directions

FOLDER = Path(__file__).resolve().parent.parent / "bundles" / "furniture"
MOST_BYTES = 4_000_000
FRESH_SEED, FRESH_ITEMS = 987, 40


def test_it_is_whole_and_answers_its_canaries() -> None:
    encoder = open_encoder(FOLDER)
    assert encoder.bundle.about
    assert encoder.bundle.views.renderer == LOOK


def test_it_is_small_and_tells_no_folder() -> None:
    files = [path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(map(len, files)) <= MOST_BYTES
    assert not any(b"site-packages" in content for content in files)


def test_it_reports_what_was_promised() -> None:
    numbers = bundles.load(FOLDER).evaluation
    assert numbers["text_to_shape"]["gallery"] == numbers["shape_to_text"]["queries"] == 300
    assert numbers["text_to_shape"]["R@10"][0] >= 0.90
    assert numbers["shape_to_text"]["R@10"][0] >= 0.95


def test_it_brings_captions() -> None:
    assert "a chair" in open_encoder(FOLDER).bundle.pool()


def test_it_is_served_with_the_packaged_reader() -> None:
    """Each caption asks, and the four others of its piece are known."""
    reader = open_encoder(FOLDER).reader
    assert reader is not None
    captions = [caption.text for index in range(FRESH_ITEMS) for caption in make(FRESH_SEED, index).captions]
    vectors = reader.encode(captions).reshape(FRESH_ITEMS, 5, -1)
    firsts = []
    for asked in range(5):
        known = np.delete(vectors, asked, axis=1)
        scores = np.einsum("qd,ikd->qik", vectors[:, asked], known).max(axis=2)
        firsts.append(scores.argmax(axis=1) == np.arange(FRESH_ITEMS))
    assert np.mean(firsts) > 0.7


@pytest.mark.slow
def test_it_knows_furniture_that_it_never_saw(tmp_path: Path) -> None:
    encoder = open_encoder(FOLDER)
    spec = encoder.bundle.views
    pieces = [make(FRESH_SEED, index) for index in range(FRESH_ITEMS)]
    views = []
    for piece in pieces:
        (tmp_path / "piece.glb").write_bytes(glb(piece))
        drawn = SoftwareRenderer().render(load_model(tmp_path / "piece.glb"), rig(spec.rig), spec.size)
        views.append(np.stack([pixels(Image.fromarray(view), encoder.bundle.image) for view in drawn]))
    captions = [[caption.text for caption in piece.captions] for piece in pieces]
    found = directions.report(encoder, directions.encode(encoder, np.stack(views), captions))
    assert found["text_to_shape"]["R@5"][0] > 0.8
    assert found["shape_to_text"]["R@5"][0] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["egl", "osmesa"])
def test_it_knows_furniture_by_the_views_of_other_engines(name: str) -> None:
    encoder = open_encoder(FOLDER)
    pieces = [glb(make(FRESH_SEED, index)) for index in range(12)]
    try:
        seen = seen_by(encoder, name, pieces)
    except RenderEngineError as error:
        pytest.skip(str(error))
    alike = seen @ seen_by(encoder, "numba", pieces).T
    assert alike.diagonal().min() > 0.995
    assert (alike.argmax(axis=1) == np.arange(len(pieces))).all()


def seen_by(encoder: Encoder, engine: str, meshes: list[bytes]) -> Float32[np.ndarray, "n d"]:
    """One unit feature for each mesh, from the views of this engine."""
    spec, rows = encoder.bundle.views, []
    with Sandbox(1, seconds=PATIENCE, engine=engine) as sandbox:
        for mesh in meshes:
            views = sandbox.draw(
                MeshSource(mesh, ".glb", up=spec.up), ViewOrder(spec.rig, spec.size, spec.background)
            ).views
            squares = np.stack([pixels(Image.fromarray(view), encoder.bundle.image) for view in views])
            rows.append(encoder.pixels(squares).mean(axis=0))
    features = np.stack(rows)
    units: Float32[np.ndarray, "n d"] = features / np.linalg.norm(features, axis=1, keepdims=True)
    return units


@pytest.mark.gpu
@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="no CUDA here"
)
def test_it_answers_its_canaries_on_a_gpu() -> None:
    assert open_encoder(FOLDER).provider == "CUDAExecutionProvider"
