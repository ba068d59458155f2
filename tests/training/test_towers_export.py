"""Every kind of tower becomes a graph that computes the same for any batch."""

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from tests.training import towers
from tests.training.towers import KINDS
from training.towers import build_model, image_spec


@pytest.fixture(scope="module", autouse=True)
def _tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    towers.register(tmp_path_factory.mktemp("models"))


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
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_compute_what_towers_do(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    wanted = towers.recipe(*KINDS[kind])
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
