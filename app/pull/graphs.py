"""Published ONNX graphs on disk: read, looked into, written; and the one graph that is all ours."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.pull.source import PullError
from multifold.errors import needs_extra

with needs_extra("pull"):
    import onnx
    from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

IDS, MASK = ("input_ids", "text"), "attention_mask"
LEAST_OPSET = 11
GEOMETRY_OPSET, GEOMETRY_IR = 17, 8
LARGE = 2**30  # bytes; above, weights lie beside the graph, which may not exceed 2 GiB itself


def read(path: Path, weights: bool = True) -> ModelProto:
    """A published graph with its weights, wherever they lie."""
    try:
        model = onnx.load(path, load_external_data=weights)
    except Exception as error:  # protobuf and external data fail in many ways
        raise PullError(f"{path} is no whole ONNX graph, or its weights are missing: {error}") from error
    opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
    if opset < LEAST_OPSET:
        raise PullError(f"{path} is written in opset {opset}; we read {LEAST_OPSET} and later")
    return model


def beside(path: Path) -> set[str]:
    """The files that hold a graph's weights, relative to its folder."""
    model = read(path, weights=False)
    kept = (one for one in model.graph.initializer if one.data_location == TensorProto.EXTERNAL)
    return {str(entry.value) for one in kept for entry in one.external_data if entry.key == "location"}


def write(model: ModelProto, path: Path) -> None:
    """Save a graph, large weights in one file beside it."""
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=size > LARGE, location=beside.name)


def inputs(model: ModelProto) -> list[ValueInfoProto]:
    """What a graph asks for; old ones list their weights among it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def sizes(value: ValueInfoProto) -> list[int | None]:
    """The lengths of a tensor's axes, None where they are free."""
    axes = value.type.tensor_type.shape.dim
    return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]


def output(model: ModelProto, wanted: Sequence[str]) -> str:
    """The output that holds the features: one of the wanted names, in their order, or else the only one."""
    names = [str(value.name) for value in model.graph.output]
    for name in wanted:
        if name in names:
            return name
    if len(names) == 1 and not wanted:
        return names[0]
    raise PullError(f"the graph gives {', '.join(names)}, where we look for {', '.join(wanted) or 'one'}")


def ids_input(model: ModelProto) -> tuple[ValueInfoProto, ValueInfoProto | None]:
    """A text graph's token ids, and its attention mask if it wants one."""
    found = {value.name: value for value in inputs(model)}
    name = next((name for name in IDS if name in found), None)
    if name is None or found.keys() - {name, MASK}:
        raise PullError(f"the text graph asks for {', '.join(found)}; we know {', '.join((*IDS, MASK))}")
    return found[name], found.get(MASK)


def geometry_graph() -> ModelProto:
    """features [b, n] -> out [b, n] of unit length."""
    nodes = [
        helper.make_node("ReduceL2", ["features"], ["length"], axes=[1], keepdims=1),
        helper.make_node("Max", ["length", "least"], ["safe"]),
        helper.make_node("Div", ["features", "safe"], ["out"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "n"]) for name in ("features", "out")
    ]
    least = [numpy_helper.from_array(np.array(1e-8, np.float32), "least")]
    graph = helper.make_graph(nodes, "geometry", ends[:1], ends[1:], least)
    opset = [helper.make_opsetid("", GEOMETRY_OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=GEOMETRY_IR)
