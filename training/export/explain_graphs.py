"""The explain graphs and the caption pool of a bundle, made and written into it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import POOL_FILE, Bundle
from training.export.gradient import GradientError, GraphGradient

BLOCK = re.compile(r"(?:^|\.)blocks\.(\d+)\.(\w+)")
SHARED = 512  # bytes from which on a weight is read from where it lies
SIDES: tuple[Literal["image", "text"], ...] = ("image", "text")
FLOAT = TensorProto.FLOAT


def write_explain_graphs(bundle: Bundle) -> dict[str, str]:
    """Write the graphs that can be made; the reasons for sides without one."""
    refused: dict[str, str] = {}
    for side in SIDES:
        path = bundle.path(f"explain_{side}.onnx")
        path.unlink(missing_ok=True)
        try:
            model = explain_graph(bundle, side)
        except GradientError as error:
            refused[side] = str(error)
            continue
        path.write_bytes(share_weights(model, bundle.path(f"{side}.onnx")).SerializeToString())
    return refused


def explain_graph(bundle: Bundle, side: Literal["image", "text"]) -> ModelProto:
    """One side's graph, with its weights."""
    model = onnx.load(bundle.path(f"{side}.onnx"))
    graph = model.graph
    cut, bidirectional = last_input(graph)
    vectors = append_geometry(graph, onnx.load(bundle.path("geometry.onnx")).graph)
    on = GraphGradient(graph)
    graph.input.append(_argument("other", [1, bundle.geometry.dim]))
    seed = "other"
    if bundle.geometry.metric == "l2":  # of −‖φ − other‖²
        seed = on.add("Mul", on.add("Sub", "other", vectors), on.number(2.0))
    gradient = on.through(vectors, seed, cut)
    image = side == "image"
    shares = _of_patches(on, cut, gradient) if image else _of_words(on, cut, gradient, bidirectional)
    del graph.output[:]
    graph.output.append(_argument(shares, [1, None]))
    return model


def last_input(graph: GraphProto) -> tuple[str, bool]:
    """The input of the last block, or a bag's words; and whether blocks are post-norm like BERT's."""
    norms = [node for node in graph.node if node.op_type == "LayerNormalization"]
    matches = [(place, match) for place, node in enumerate(norms) if (match := BLOCK.search(node.input[1]))]
    if not matches:
        return _words_of_bag(graph), False
    last = max(int(match[1]) for _, match in matches)
    first, match = next((place, match) for place, match in matches if int(match[1]) == last)
    bidirectional = match[2].startswith("after")
    return norms[first - 1].output[0] if bidirectional else norms[first].input[0], bidirectional


def _words_of_bag(graph: GraphProto) -> str:
    """The weighted vectors of the words, of a tower that only adds them up."""
    words = {node.output[0] for node in graph.node if node.input and node.input[0].endswith("embed.weight")}
    for node in graph.node:
        if node.op_type == "Mul" and words & {*node.input}:
            return str(node.output[0])
    raise GradientError("this graph has no blocks with norms of their own")


def append_geometry(graph: GraphProto, geometry: GraphProto) -> str:
    """Append the geometry's graph to a tower; returns the name of its index vectors."""
    features = graph.output[0].name

    def renamed(name: str) -> str:
        return features if name == geometry.input[0].name else f"map_{name}" if name else ""

    for node in geometry.node:
        copied = graph.node.add()
        copied.CopyFrom(node)
        copied.name = f"map_{node.name}"
        copied.input[:], copied.output[:] = map(renamed, node.input), map(renamed, node.output)
    for weight in geometry.initializer:
        graph.initializer.add().CopyFrom(weight)
        graph.initializer[-1].name = f"map_{weight.name}"
    return renamed(geometry.output[0].name)


def share_weights(model: ModelProto, host: Path) -> ModelProto:
    """Read the model's large weights from the file that already holds them, mostly in the same order."""
    content, last = host.read_bytes(), 0
    used = {name for node in model.graph.node for name in node.input}
    weights = [weight for weight in model.graph.initializer if weight.name in used]
    del model.graph.initializer[:], model.graph.value_info[:]
    for weight in weights:
        if len(weight.raw_data) < SHARED:
            continue
        at = content.find(weight.raw_data, last)
        if (at := content.find(weight.raw_data) if at < 0 else at) >= 0:
            last = at
            entries = {"location": host.name, "offset": at, "length": len(weight.raw_data)}
            weight.ClearField("raw_data")
            weight.data_location = TensorProto.EXTERNAL
            for key, value in entries.items():
                weight.external_data.add(key=key, value=str(value))
    model.graph.initializer.extend(weights)
    return model


def _of_patches(on: GraphGradient, seen: str, gradient: str) -> str:
    """Class tokens come first, and are no patches."""
    classes = next((one.dims[0] for one in on.graph.initializer if one.name.endswith(".classes")), 0)
    if classes:
        ends = on.integers(classes), on.integers(2**31 - 1), on.integers(1)
        seen, gradient = (on.add("Slice", name, *ends) for name in (seen, gradient))
    return _cam(on, seen, on.add("ReduceMean", gradient, on.integers(1), keepdims=1))


def _of_words(on: GraphGradient, seen: str, gradient: str, bidirectional: bool) -> str:
    """As many places as tokens: BERT's further class tokens come first, those of others last."""
    on.graph.input.append(_argument("places", [1, None]))
    length = on.add("Gather", on.add("Shape", "tokens"), on.integers(1))
    last = on.add("Neg", length), on.integers(2**31 - 1)
    start, end = last if bidirectional else (on.integers(0), length)
    seen, gradient = (on.add("Slice", name, start, end, on.integers(1)) for name in (seen, gradient))
    mask = on.add("Unsqueeze", "places", on.integers(2))
    total = on.add("ReduceSum", on.add("Mul", gradient, mask), on.integers(1), keepdims=1)
    count = on.add("Max", on.add("ReduceSum", mask, on.integers(1), keepdims=1), on.number(1.0))
    return on.add("Mul", _cam(on, seen, on.add("Div", total, count)), "places")


def _cam(on: GraphGradient, seen: str, slope: str) -> str:
    return on.add("ReduceSum", on.add("Mul", seen, slope), on.integers(2), keepdims=0)


def _argument(name: str, shape: list[int | None]) -> ValueInfoProto:
    axes = ["batch", *(axis if axis is not None else "length" for axis in shape[1:])]
    return helper.make_tensor_value_info(name, FLOAT, axes)


def equip_bundle(bundle: Bundle, pool: Sequence[str], graphs: bool = True) -> Bundle:
    """Add a caption pool, if any, and explain graphs; print their sizes, and why one is missing."""
    if pool:
        write_bundle_json(bundle, POOL_FILE, pool)
    refused = write_explain_graphs(bundle) if graphs else {}
    sealed = bundles.save(bundle)
    for name in (f"{kind}_{side}.onnx" for kind in ("points", "explain") for side in SIDES):
        if sealed.has(name):
            print(f"{name}: {sealed.path(name).stat().st_size:,} bytes")
    for side, why in refused.items():
        print(f"explain_{side}.onnx: {why}")
    return sealed


def write_bundle_json(bundle: Bundle, name: str, content: object) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    bundle.path(name).write_text(text + "\n", encoding="utf-8")
