"""The graph of the picture tower computes what its layers do, one by one, in torch."""

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch.nn import functional

from app.pull import efficientnet
from app.pull.efficientnet import HIGHEST, NORM_EPSILON, SIZE, TowerGraph, read_weights
from app.pull.published_files import PullError

# Of the blocks of EfficientNet-Lite2: kernel, stride, and how many follow each other.
STAGES = ((3, 1, 1), (3, 2, 3), (5, 2, 3), (3, 2, 4), (5, 1, 4), (5, 2, 5), (3, 1, 1))


@pytest.fixture(scope="module")
def weights() -> Mapping[str, np.ndarray]:
    return read_weights()


def convolve(planes: torch.Tensor, weights: Mapping[str, np.ndarray], name: str, stride: int) -> torch.Tensor:
    """A convolution that pads as TensorFlow does: what is left over, at the end."""
    kernel = torch.from_numpy(weights[f"{name}.weight"])
    pads = []
    for length in (planes.shape[3], planes.shape[2]):
        needed = max((-(-length // stride) - 1) * stride + kernel.shape[2] - length, 0)
        pads += [needed // 2, needed - needed // 2]
    groups = len(kernel) if kernel.shape[1] == 1 else 1
    return functional.conv2d(functional.pad(planes, pads), kernel, stride=stride, groups=groups)


def normalise(planes: torch.Tensor, weights: Mapping[str, np.ndarray], name: str) -> torch.Tensor:
    mean, variance, scale, shift = (
        torch.from_numpy(weights[f"{name}.{part}"])
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return functional.batch_norm(planes, mean, variance, scale, shift, eps=NORM_EPSILON)


def plain_logits(planes: torch.Tensor, weights: Mapping[str, np.ndarray]) -> torch.Tensor:
    found = normalise(convolve(planes, weights, "_conv_stem", 2), weights, "_bn0").clamp(0, HIGHEST)
    number = 0
    for side, stride, count in STAGES:
        for place in range(count):
            block, given = f"_blocks.{number}", found
            if number:
                found = normalise(
                    convolve(found, weights, f"{block}._expand_conv", 1), weights, f"{block}._bn0"
                )
                found = found.clamp(0, HIGHEST)
            assert weights[f"{block}._depthwise_conv.weight"].shape[2] == side
            found = convolve(found, weights, f"{block}._depthwise_conv", 1 if place else stride)
            found = normalise(found, weights, f"{block}._bn1").clamp(0, HIGHEST)
            found = normalise(convolve(found, weights, f"{block}._project_conv", 1), weights, f"{block}._bn2")
            found = found + given if place else found
            number += 1
    found = normalise(convolve(found, weights, "_conv_head", 1), weights, "_bn1").clamp(0, HIGHEST)
    weight, bias = (torch.from_numpy(weights[f"_fc.{part}"]) for part in ("weight", "bias"))
    return functional.linear(found.mean(dim=(2, 3)), weight, bias)


def test_logits_are_those_of_the_layers_in_torch(weights: Mapping[str, np.ndarray]) -> None:
    tower = TowerGraph(weights)
    pooled = tower.add("Flatten", [tower.add("GlobalAveragePool", [tower.features], "pooled")], "flat")
    model = tower.model(tower.classify(pooled), 1000)
    planes = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"planes": planes.numpy()})
    with torch.no_grad():
        wanted = plain_logits(planes, weights).numpy()
    assert np.abs(wanted).max() > 0.5
    assert np.abs(logits - wanted).max() < 1e-3


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "SHA256", "0" * 64)
    with pytest.raises(PullError, match="sha256"):
        read_weights()
    monkeypatch.setattr(efficientnet, "PACKAGE", "no_such_package")
    with pytest.raises(PullError, match="no-such-package is not installed"):
        read_weights()
