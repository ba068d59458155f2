"""Torch modules become ONNX graphs that compute the same."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.encoder import Encoder
from multifold.errors import MultifoldError
from training.geometries.base import Geometry
from training.towers import Model

PARITY = 1e-4
OPSET = 20


class ParityError(MultifoldError):
    """A graph that does not compute what the model computes."""


class _IndexVectors(nn.Module):
    """The geometry's map alone, as a graph wants it."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry

    def forward(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b d"]:
        return self.geometry.index_vectors(features)


def write_graphs(model: Model, size: int, dim: int, folder: Path) -> None:
    """`image.onnx`, `text.onnx` and `geometry.onnx` of a model, with dynamic batch and text length."""
    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("length", min=2, max=512)
    pictures = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    tokens = torch.ones(2, 8, dtype=torch.int64)
    features = torch.ones(2, dim)
    _write(model.image, pictures, "pixels", {0: batch}, folder / "image.onnx")
    _write(model.text, tokens, "tokens", {0: batch, 1: length}, folder / "text.onnx")
    _write(_IndexVectors(model.geometry), features, "features", {0: batch}, folder / "geometry.onnx")


def check_parity(model: Model, encoder: Encoder, pixels: np.ndarray, texts: list[str]) -> float:
    """The largest difference between torch and ONNX Runtime; raises beyond the limit."""
    tokens = encoder.tokenizer(texts).ids
    with torch.inference_mode():
        images = model.image(torch.from_numpy(np.array(pixels)))
        captions = model.text(torch.from_numpy(tokens))
        vectors = model.geometry.index_vectors(captions)
    found = (encoder.pixels(pixels), encoder.texts(texts).features, encoder.vectors(captions.numpy()))
    names = ("image.onnx", "text.onnx", "geometry.onnx")
    worst = 0.0
    for name, ours, theirs in zip(names, (images, captions, vectors), found, strict=True):
        difference = float((ours - torch.from_numpy(theirs)).abs().max() / ours.abs().max().clamp(min=1))
        if not difference <= PARITY:
            raise ParityError(f"{name} differs from the model by {difference:.1e}, more than {PARITY}")
        worst = max(worst, difference)
    return worst


def _write(module: nn.Module, example: Tensor, name: str, dynamic: dict[int, object], path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecations
        program = torch.onnx.export(
            module.eval(),
            (example,),
            dynamo=True,
            input_names=[name],
            output_names=["out"],
            dynamic_shapes=(dynamic,),
            opset_version=OPSET,
            verbose=False,
        )
    if program is None:
        raise ParityError(f"{path.name} could not be exported")
    onnx.save(_without_traces(program.model_proto), path)


def _without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """The exporter notes the source line of every node, with the folders of whoever exports."""
    for graph in (model.graph, *model.functions):
        for part in (graph, *graph.node, *graph.value_info):
            part.ClearField("metadata_props")
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.ClearField("metadata_props")
    return model
