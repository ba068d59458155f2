"""Torch modules become ONNX graphs that compute the same, for batches of any size."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.bundle.bundle import POINTS_FILE
from multifold.bundle.canary import made_clouds
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import PointSpec, group_points
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import MultifoldError
from training.geometries.base import EntailmentGeometry, Geometry, RescoringGeometry
from training.towers import TwoTowerModel

PARITY = 1e-4
OPSET = 20
K = 0.3  # width of the cones that parity is checked with
OPTIONAL = ("rescore.onnx", "entail.onnx")


class ParityError(MultifoldError):
    """A graph that does not compute what the model computes."""


class _Method(nn.Module):
    """One method of a module, as a module of its own."""

    def __init__(self, module: nn.Module, method: str) -> None:
        super().__init__()
        self.module, self.method = module, method

    def forward(self, *tensors: Tensor) -> Tensor:
        result: Tensor = getattr(self.module, self.method)(*tensors)
        return result


def write_graphs(
    model: TwoTowerModel,
    image: ImageSpec,
    text: TextSpec,
    folder: Path,
    grouped: PointSpec | None = None,
) -> None:
    """The graphs of the towers and of the geometry; a point tower reads points that are `grouped` so."""
    rows, length = {0: _dim("batch", 2**12)}, {1: _dim("length", text.context)}
    dynamic = text.length == "dynamic"
    pixels = {"pixels": torch.zeros(2, image.size, image.size, 3, dtype=torch.uint8)}
    tokens = {"tokens": torch.ones(2, min(8, text.context) if dynamic else text.context, dtype=torch.int64)}
    write_graph(model.image, "forward", pixels, [rows], folder / "image.onnx")
    write_graph(model.text, "forward", tokens, [rows | length if dynamic else rows], folder / "text.onnx")
    if model.points is not None and grouped is not None:
        write_points(model.points, grouped, folder)
    write_geometry(model.geometry, folder)


def write_points(tower: nn.Module, spec: PointSpec, folder: Path) -> None:
    """The graph of a point tower, which reads points in groups."""
    groups = {"groups": torch.zeros(2, spec.groups, spec.neighbours, spec.columns)}
    write_graph(tower, "forward", groups, [{0: _dim("batch", 2**12)}], folder / POINTS_FILE)


def write_geometry(geometry: Geometry, folder: Path) -> None:
    """`geometry.onnx`, and `rescore.onnx` and `entail.onnx` where it has them; stale ones are removed."""
    for name in OPTIONAL:
        (folder / name).unlink(missing_ok=True)
    some = {0: _dim("some", 2**20)}
    more = _dim("more", 2**20)
    n, d = geometry.feature_dim, geometry.dim
    features = {"features": torch.ones(2, n)}
    write_graph(geometry, "index_vectors", features, [some], folder / "geometry.onnx")
    if isinstance(geometry, RescoringGeometry):
        vectors = {"query": torch.ones(2, d), "candidates": torch.ones(2, 3, d)}
        write_graph(geometry, "rescore", vectors, [some, {**some, 1: more}], folder / "rescore.onnx")
    if isinstance(geometry, EntailmentGeometry):
        pairs = {"general": torch.ones(2, n), "specific": torch.ones(3, n), "k": torch.tensor(K)}
        write_graph(geometry, "entail", pairs, [some, {0: more}, {}], folder / "entail.onnx")


def write_graph(
    module: nn.Module,
    method: str,
    example: Mapping[str, Tensor],
    dynamic: Sequence[Mapping[int, Any]],
    path: Path,
) -> None:
    """One method of a module, with the arguments of the example; their dynamic axes may have any size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecations
        program = torch.onnx.export(
            _Method(module, method).eval(),
            tuple(example.values()),
            dynamo=True,
            input_names=list(example),
            output_names=["out"],
            dynamic_shapes=(tuple(dynamic),),
            opset_version=OPSET,
            verbose=False,
        )
    if program is None:
        raise ParityError(f"{path.name} could not be exported")
    onnx.save(_without_traces(program.model_proto), path)


def check_parity(model: TwoTowerModel, encoder: Encoder, pixels: np.ndarray, texts: list[str]) -> float:
    """The largest difference between torch and ONNX Runtime; raises beyond the limit."""
    tokens = encoder.tokenizer(texts).ids
    with torch.inference_mode():
        images = model.image(torch.from_numpy(np.array(pixels)))
        captions = model.text(torch.from_numpy(tokens))
    differences = [
        _difference("image.onnx", images, encoder.pixels(pixels)),
        _difference("text.onnx", captions, encoder.texts(texts).features),
        check_geometry(model.geometry, encoder, captions, images),
    ]
    if model.points is not None and encoder.bundle.points is not None:
        differences.append(check_points(model.points, encoder))
    return max(differences)


@torch.inference_mode()
def check_points(tower: nn.Module, encoder: Encoder) -> float:
    """The same for a point tower, on clouds of points; grouping is part of what is compared."""
    spec = encoder.bundle.points
    assert spec is not None
    clouds = made_clouds(spec.points)
    ours = tower(torch.from_numpy(np.stack([group_points(one, spec) for one in clouds])))
    return _difference(POINTS_FILE, ours, encoder.points(clouds))


@torch.inference_mode()
def check_geometry(
    geometry: Geometry, encoder: Encoder, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]
) -> float:
    """The same for the geometry's graphs, on features."""
    ours = geometry.index_vectors(query), geometry.index_vectors(gallery)
    differences = [_difference("geometry.onnx", ours[0], encoder.vectors(query.numpy()))]
    if isinstance(geometry, RescoringGeometry):
        candidates = ours[1].expand(len(query), -1, -1).contiguous()
        theirs = encoder.rescore(ours[0].numpy(), candidates.numpy())
        differences.append(_difference("rescore.onnx", geometry.rescore(ours[0], candidates), theirs))
    if isinstance(geometry, EntailmentGeometry):
        theirs = encoder.entail(query.numpy(), gallery.numpy(), K)
        differences.append(_difference("entail.onnx", geometry.entail(query, gallery, K), theirs))
    return max(differences)


def _difference(name: str, ours: Tensor, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        raise ParityError(f"{name} answers in the shape {theirs.shape}, the model in {tuple(ours.shape)}")
    difference = float((ours - torch.from_numpy(theirs)).abs().max() / ours.abs().max().clamp(min=1))
    if not difference <= PARITY:
        raise ParityError(f"{name} differs from the model by {difference:.1e}, more than {PARITY}")
    return difference


def _dim(name: str, most: int) -> Any:  # noqa: ANN401 (torch names no public type)
    return torch.export.Dim(name, min=1, max=most)


def _without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove the exporter's note of the source line of every node, with its folders."""
    graph = model.graph
    parts = [*graph.input, *graph.output, *graph.initializer]
    for one in (graph, *model.functions):
        parts += [one, *one.node, *one.value_info]
    for part in parts:
        part.ClearField("metadata_props")
    return model
