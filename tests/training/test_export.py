"""A checkpoint becomes a bundle that loads, answers like the model, and reports itself."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from tests.training import small
from training import checkpoint, loop
from training.export.bundle import export_bundle
from training.export.graphs import ParityError, check_parity
from training.towers import build_model

HOUSE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    recipe = small.recipe()
    groups, tokenizer = small.groups(recipe)
    return loop.train(recipe, groups, tokenizer, folder)


@pytest.fixture(scope="module")
def encoder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    views, captions = small.pictures()
    folder = tmp_path_factory.mktemp("bundle")
    export_bundle(checkpoint.load_checkpoint(run), views, captions, folder, {"code": "test"})
    return open_encoder(folder)


def test_it_answers_like_the_model_for_any_batch_and_length(run: Path, encoder: Encoder) -> None:
    model = checkpoint.load_checkpoint(run).model
    views, captions = small.pictures()
    for rows in (1, 3, 16):
        assert check_parity(model, encoder, views[:rows, 0], [c[0] for c in captions[:rows]]) < 1e-4
    assert check_parity(model, encoder, views[:1, 0], ["square " * 100]) < 1e-4
    assert check_parity(model, encoder, views[:1, 0], [""]) < 1e-4


def test_it_refuses_a_model_of_other_weights(encoder: Encoder) -> None:
    torch.manual_seed(99)
    other = build_model(small.recipe(), 300)
    views, captions = small.pictures()
    with pytest.raises(ParityError, match=r"image\.onnx differs from the model"):
        check_parity(other.eval(), encoder, views[0], captions[0])


def test_the_report_is_in_the_bundle(encoder: Encoder) -> None:
    numbers = encoder.bundle.evaluation
    assert numbers["text_to_shape"]["queries"] == 48
    assert numbers["shape_to_text"]["gallery"] == 48
    assert numbers["text_to_shape"]["R@5"][0] > 0.8
    assert "text to shape" in encoder.bundle.path("report.md").read_text(encoding="utf-8")
    assert encoder.bundle.provenance["recipe"]["name"] == "small"


def test_probes_are_features_of_the_held_out_items(encoder: Encoder) -> None:
    views, captions = small.pictures()
    with np.load(encoder.bundle.path("probe.npz")) as probes:
        texts = encoder.texts([text for texts in captions for text in texts]).features
        np.testing.assert_allclose(probes["text"], texts, atol=1e-5)
        np.testing.assert_allclose(probes["shape"][3], encoder.pixels(views[3]).mean(0), atol=1e-5)


def test_graphs_do_not_tell_where_they_were_made(encoder: Encoder) -> None:
    for name in ("image.onnx", "text.onnx", "geometry.onnx"):
        graph = encoder.bundle.path(name).read_bytes()
        assert b"stack_trace" not in graph
        assert str(HOUSE).encode() not in graph
        assert b"site-packages" not in graph
