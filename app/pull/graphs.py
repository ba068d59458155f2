"""Published ONNX graphs: read, inspect, wrap (pixels or tokens in, float32 features out) and write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from app.pull.published_files import PullError
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import needs_extra

with needs_extra("pull"):
    import onnx
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper


ID_INPUTS = ("input_ids", "text")
MASK_INPUT = "attention_mask"
LEAST_OPSET = 11
OWN_OPSET = 17  # of graphs that are ours from the first node
OWN_IR = 8
SMALLEST_NORM = 1e-8  # that a vector is divided by
LARGE_WEIGHTS = 2**30  # bytes; above, weights lie beside the graph, which may not exceed 2 GiB itself


def read_graph(path: Path, weights: bool = True) -> ModelProto:
    try:
        model = onnx.load(path, load_external_data=weights)
    except Exception as error:  # protobuf and external data fail in many ways
        raise PullError(f"{path} is no whole ONNX graph, or its weights are missing: {error}") from error
    opset = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)
    if opset < LEAST_OPSET:
        raise PullError(f"{path} is written in opset {opset}; we read {LEAST_OPSET} and later")
    return model


def weight_files(path: Path) -> set[str]:
    """The files that hold a graph's weights, relative to its folder."""
    model = read_graph(path, weights=False)
    external = (one for one in model.graph.initializer if one.data_location == TensorProto.EXTERNAL)
    return {str(entry.value) for one in external for entry in one.external_data if entry.key == "location"}


def write_graph(model: ModelProto, path: Path) -> None:
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=size > LARGE_WEIGHTS, location=beside.name)


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs of a graph; old graphs list their weights among them."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def axis_lengths(value: ValueInfoProto) -> list[int | None]:
    """The lengths of a tensor's axes, None where they are free."""
    axes = value.type.tensor_type.shape.dim
    return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]


def feature_output(model: ModelProto, wanted: Sequence[str]) -> str:
    """The output that holds the features: one of the wanted names, in their order, or else the only one."""
    names = [str(value.name) for value in model.graph.output]
    for name in wanted:
        if name in names:
            return name
    if len(names) == 1 and not wanted:
        return names[0]
    raise PullError(f"the graph gives {', '.join(names)}, where we look for {', '.join(wanted) or 'one'}")


def ids_input(model: ModelProto) -> tuple[ValueInfoProto, ValueInfoProto | None]:
    """A text graph's token ids, and its attention mask if it takes one."""
    inputs = {value.name: value for value in graph_inputs(model)}
    name = next((name for name in ID_INPUTS if name in inputs), None)
    if name is None or inputs.keys() - {name, MASK_INPUT}:
        known = ", ".join((*ID_INPUTS, MASK_INPUT))
        raise PullError(f"the text graph asks for {', '.join(inputs)}; we know {known}")
    return inputs[name], inputs.get(MASK_INPUT)


def geometry_graph() -> ModelProto:
    """features [b, n] -> out [b, n] of unit length."""
    nodes = [
        helper.make_node("ReduceL2", ["features"], ["length"], axes=[1], keepdims=1),
        helper.make_node("Max", ["length", "least"], ["safe"]),
        helper.make_node("Div", ["features", "safe"], ["out"]),
    ]
    tensor = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=["b", "n"])
    least = {"least": np.array(SMALLEST_NORM, np.float32)}
    return own_graph("geometry", nodes, tensor("features"), tensor("out"), least)


def own_graph(
    name: str,
    nodes: Sequence[NodeProto],
    given: ValueInfoProto,
    output: ValueInfoProto,
    numbers: Mapping[str, np.ndarray],
) -> ModelProto:
    """A graph of one input and one output, and of numbers by their names."""
    weights = [numpy_helper.from_array(values, tensor) for tensor, values in numbers.items()]
    graph = helper.make_graph(nodes, name, [given], [output], weights)
    opset = [helper.make_opsetid("", OWN_OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=OWN_IR)


OWN_PREFIX = "multifold_"  # what the names of our tensors begin with
OUTPUT_NAME = OWN_PREFIX + "features"
FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16)
RUN_TIME_OPERATORS = "DynamicQuantize"  # their scale depends on all that is in a batch


@dataclass(frozen=True)
class _WrappedInput:
    """The nodes that compute one input of a published graph, and the shape of it for one picture or text."""

    value: ValueInfoProto
    nodes: list[NodeProto]  # the last of them has the input as its output
    shape: list[int]
    weights: dict[str, np.ndarray] = field(default_factory=dict)


def image_graph(model: ModelProto, spec: ImageSpec, features: str) -> ModelProto:
    """pixels uint8 [b, S, S, 3] -> float32 [b, n]."""
    inputs = graph_inputs(model)
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise PullError(f"the image graph asks for {names}, where we have a picture alone")
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", spec.size, spec.size, 3])
    return _wrap_graph(model, pixels, [_normalised_input(inputs[0], spec)], features)


def text_graph(model: ModelProto, spec: TextSpec, features: str) -> ModelProto:
    """tokens int64 [b, t] -> float32 [b, n]."""
    ids, mask = ids_input(model)
    taken = axis_lengths(ids)[1]
    if taken not in (None, spec.context):
        raise PullError(f"the text graph takes {taken} tokens, its configuration says {spec.context}")
    length = "length" if spec.length == "dynamic" else spec.context
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", length])
    cast = helper.make_node("Cast", ["tokens"], [ids.name], to=ids.type.tensor_type.elem_type)
    inputs = [_WrappedInput(ids, [cast], [-1])]
    if mask is not None:
        inputs.append(_mask_input(mask, spec))
    return _wrap_graph(model, tokens, inputs, features)


def _normalised_input(value: ValueInfoProto, spec: ImageSpec) -> _WrappedInput:
    """Planes, normalised as `preprocess.normalise` does it, or the pixels themselves."""
    kind = value.type.tensor_type.elem_type
    shape = axis_lengths(value)
    if kind == TensorProto.UINT8 and len(shape) == 4 and shape[3] == 3:
        _check_size(shape[1:3], spec)
        same = helper.make_node("Identity", ["pixels"], [value.name])
        return _WrappedInput(value, [same], [spec.size, spec.size, 3])
    if kind not in FLOAT_TYPES or len(shape) != 4 or shape[1] not in (None, 3):
        raise PullError(f"the image graph takes {value.name} of the shape {shape}, which is no picture to us")
    _check_size(shape[2:], spec)
    scaled = [OWN_PREFIX + name for name in ("bytes", "light", "centred", "scaled", "planes")]
    full, mean, std = (OWN_PREFIX + name for name in ("full", "mean", "std"))
    numbers = ((full, 255), (mean, spec.mean), (std, spec.std))
    weights = {name: np.array(number, np.float32) for name, number in numbers}
    nodes = [
        helper.make_node("Cast", ["pixels"], [scaled[0]], to=TensorProto.FLOAT),
        helper.make_node("Div", [scaled[0], full], [scaled[1]]),
        helper.make_node("Sub", [scaled[1], mean], [scaled[2]]),
        helper.make_node("Div", [scaled[2], std], [scaled[3]]),
        helper.make_node("Transpose", [scaled[3]], [scaled[4]], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", [scaled[4]], [value.name], to=kind),
    ]
    return _WrappedInput(value, nodes, [3, spec.size, spec.size], weights)


def _check_size(sides: Sequence[int | None], spec: ImageSpec) -> None:
    if any(side not in (None, spec.size) for side in sides):
        raise PullError(f"the image graph takes {sides} pixels, its configuration says {spec.size}")


def _mask_input(value: ValueInfoProto, spec: TextSpec) -> _WrappedInput:
    """1 where a text is, 0 on its padding: after the first end id, where texts are filled with that id."""
    is_text = OWN_PREFIX + "is_text"
    numbers = {OWN_PREFIX + "pad": spec.pad}
    if spec.pad != spec.end:
        nodes = [
            helper.make_node("Equal", ["tokens", OWN_PREFIX + "pad"], [OWN_PREFIX + "is_pad"]),
            helper.make_node("Not", [OWN_PREFIX + "is_pad"], [is_text]),
        ]
    else:
        is_end, ends, ended = (OWN_PREFIX + name for name in ("is_end", "ends", "ended"))
        end, axis, zero = (OWN_PREFIX + name for name in ("end", "along", "none"))
        numbers = {end: spec.end, axis: 1, zero: 0}
        nodes = [
            helper.make_node("Equal", ["tokens", end], [is_end]),
            helper.make_node("Cast", [is_end], [ends], to=TensorProto.INT64),
            helper.make_node("CumSum", [ends, axis], [ended], exclusive=1),
            helper.make_node("Equal", [ended, zero], [is_text]),
        ]
    nodes.append(helper.make_node("Cast", [is_text], [value.name], to=value.type.tensor_type.elem_type))
    weights = {name: np.array(number, np.int64) for name, number in numbers.items()}
    return _WrappedInput(value, nodes, [-1], weights)


def _wrap_graph(
    model: ModelProto, new_input: ValueInfoProto, inputs: Sequence[_WrappedInput], features: str
) -> ModelProto:
    """The model itself, changed in place: copies of its weights could fill the memory."""
    graph = model.graph
    batches = {axis_lengths(one.value)[0] for one in inputs}
    if not batches <= {None, 1}:
        raise PullError(f"the graph takes batches of {batches} alone; we need one, or any number")
    tensors = {name for node in graph.node for name in (*node.input, *node.output)}
    if new_input.name in tensors or any(name.startswith(OWN_PREFIX) for name in tensors):
        raise PullError(f"the graph has a tensor of the name {new_input.name} or {OWN_PREFIX}… already")
    nodes = [*graph.node]
    length = axis_lengths(next(value for value in graph.output if value.name == features))[-1]
    quantized_per_batch = any(node.op_type.startswith(RUN_TIME_OPERATORS) for node in nodes)
    for former in (graph.node, graph.input, graph.output, graph.value_info):
        del former[:]
    graph.input.append(new_input)
    graph.output.append(helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["batch", length]))
    for one in inputs:
        graph.node.extend(one.nodes)
        graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in one.weights.items())
    if batches == {None} and not quantized_per_batch:
        graph.node.extend(nodes)
        graph.node.append(helper.make_node("Cast", [features], [OUTPUT_NAME], to=TensorProto.FLOAT))
    else:
        graph.node.append(_one_at_a_time(graph, nodes, inputs, features))
    model.producer_name = "multifold"
    return model


def _one_at_a_time(
    graph: GraphProto, nodes: Sequence[NodeProto], inputs: Sequence[_WrappedInput], features: str
) -> NodeProto:
    """The published nodes in a Scan over the batch; their weights stay outside, loaded once."""
    body = GraphProto(name="one")
    batches = []
    for wrapped in inputs:
        name = wrapped.value.name
        kind = wrapped.value.type.tensor_type.elem_type
        batch, one, shape = (f"{OWN_PREFIX}{name}_{word}" for word in ("all", "one", "shape"))
        next(node for node in graph.node if name in node.output).output[0] = batch
        batches.append(batch)
        graph.initializer.append(numpy_helper.from_array(np.array([1, *wrapped.shape], np.int64), shape))
        axes = [length if length > 0 else None for length in wrapped.shape]
        body.input.append(helper.make_tensor_value_info(one, kind, axes))
        body.node.append(helper.make_node("Reshape", [one, shape], [name]))
    flat, as_float, feature = (OWN_PREFIX + name for name in ("flat", "float", "feature"))
    graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), flat))
    body.node.extend(nodes)
    body.node.append(helper.make_node("Cast", [features], [as_float], to=TensorProto.FLOAT))
    body.node.append(helper.make_node("Reshape", [as_float, flat], [feature]))
    body.output.append(helper.make_tensor_value_info(feature, TensorProto.FLOAT, [None]))
    return helper.make_node("Scan", batches, [OUTPUT_NAME], body=body, num_scan_inputs=len(batches))
