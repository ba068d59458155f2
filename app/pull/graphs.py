"""Published ONNX graphs: read, inspect, wrap (pixels or tokens in, float32 features out) and write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from app.pull.source import PullError
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import needs_extra

with needs_extra("pull"):
    import onnx
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper


ID_INPUTS, MASK_INPUT = ("input_ids", "text"), "attention_mask"
LEAST_OPSET = 11
GEOMETRY_OPSET, GEOMETRY_IR = 17, 8
LARGE_WEIGHTS = 2**30  # bytes; above, weights lie beside the graph, which may not exceed 2 GiB itself


def read_graph(path: Path, weights: bool = True) -> ModelProto:
    """A published graph with its weights, wherever they lie."""
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
    kept = (one for one in model.graph.initializer if one.data_location == TensorProto.EXTERNAL)
    return {str(entry.value) for one in kept for entry in one.external_data if entry.key == "location"}


def write_graph(model: ModelProto, path: Path) -> None:
    """Save a graph, large weights in one file beside it."""
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    beside = path.with_name(f"{path.name}.data")
    beside.unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=size > LARGE_WEIGHTS, location=beside.name)


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """What a graph asks for; old ones list their weights among it."""
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
    """A text graph's token ids, and its attention mask if it wants one."""
    found = {value.name: value for value in graph_inputs(model)}
    name = next((name for name in ID_INPUTS if name in found), None)
    if name is None or found.keys() - {name, MASK_INPUT}:
        raise PullError(
            f"the text graph asks for {', '.join(found)}; we know {', '.join((*ID_INPUTS, MASK_INPUT))}"
        )
    return found[name], found.get(MASK_INPUT)


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


OWN_PREFIX = "multifold_"  # what the names of our tensors begin with
OUTPUT_NAME = OWN_PREFIX + "features"
FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16)
RUN_TIME_OPERATORS = "DynamicQuantize"


@dataclass(frozen=True)
class _WrappedInput:
    """How one input of a published graph comes about; the last node gives it, `one` is its shape for one."""

    value: ValueInfoProto
    nodes: list[NodeProto]
    one: list[int]
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def kind(self) -> int:
        """Its type of numbers."""
        kind: int = self.value.type.tensor_type.elem_type
        return kind


def image_graph(model: ModelProto, spec: ImageSpec, features: str) -> ModelProto:
    """pixels uint8 [b, S, S, 3] -> float32 [b, n]."""
    taken = graph_inputs(model)
    if len(taken) != 1:
        names = ", ".join(value.name for value in taken)
        raise PullError(f"the image graph asks for {names}, where we have a picture alone")
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", spec.size, spec.size, 3])
    return _wrap_graph(model, pixels, [_normalised_input(taken[0], spec)], features)


def text_graph(model: ModelProto, spec: TextSpec, features: str) -> ModelProto:
    """tokens int64 [b, t] -> float32 [b, n]."""
    ids, mask = ids_input(model)
    length = "length" if spec.length == "dynamic" else spec.context
    if axis_lengths(ids)[1] not in (None, spec.context):
        raise PullError(
            f"the text graph takes {axis_lengths(ids)[1]} tokens, its configuration says {spec.context}"
        )
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", length])
    kind = ids.type.tensor_type.elem_type
    parts = [_WrappedInput(ids, [helper.make_node("Cast", ["tokens"], [ids.name], to=kind)], [-1])]
    return _wrap_graph(model, tokens, parts if mask is None else [*parts, _mask_input(mask, spec)], features)


def _normalised_input(value: ValueInfoProto, spec: ImageSpec) -> _WrappedInput:
    """What an image graph takes: planes, normalised as `preprocess.normalise` does it, or the pixels."""
    kind, shape = value.type.tensor_type.elem_type, axis_lengths(value)
    if kind == TensorProto.UINT8 and len(shape) == 4 and shape[3] == 3:
        _check_size(shape[1:3], spec)
        return _WrappedInput(
            value, [helper.make_node("Identity", ["pixels"], [value.name])], [spec.size, spec.size, 3]
        )
    if kind not in FLOAT_TYPES or len(shape) != 4 or shape[1] not in (None, 3):
        raise PullError(f"the image graph takes {value.name} of the shape {shape}, which is no picture to us")
    _check_size(shape[2:], spec)
    names = [OWN_PREFIX + name for name in ("bytes", "light", "centred", "scaled", "planes")]
    weights = {
        OWN_PREFIX + "full": np.array(255, np.float32),
        OWN_PREFIX + "mean": np.array(spec.mean, np.float32),
        OWN_PREFIX + "std": np.array(spec.std, np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["pixels"], [names[0]], to=TensorProto.FLOAT),
        helper.make_node("Div", [names[0], OWN_PREFIX + "full"], [names[1]]),
        helper.make_node("Sub", [names[1], OWN_PREFIX + "mean"], [names[2]]),
        helper.make_node("Div", [names[2], OWN_PREFIX + "std"], [names[3]]),
        helper.make_node("Transpose", [names[3]], [names[4]], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", [names[4]], [value.name], to=kind),
    ]
    return _WrappedInput(value, nodes, [3, spec.size, spec.size], weights)


def _check_size(found: Sequence[int | None], spec: ImageSpec) -> None:
    if any(side not in (None, spec.size) for side in found):
        raise PullError(f"the image graph takes {found} pixels, its configuration says {spec.size}")


def _mask_input(value: ValueInfoProto, spec: TextSpec) -> _WrappedInput:
    """1 where a text is, 0 on its padding: after the first end id, where texts are filled with that id."""
    to = value.type.tensor_type.elem_type
    last = helper.make_node("Cast", [OWN_PREFIX + "is_text"], [value.name], to=to)
    if spec.pad != spec.end:
        nodes = [
            helper.make_node("Equal", ["tokens", OWN_PREFIX + "pad"], [OWN_PREFIX + "is_pad"]),
            helper.make_node("Not", [OWN_PREFIX + "is_pad"], [OWN_PREFIX + "is_text"]),
        ]
        return _WrappedInput(value, [*nodes, last], [-1], {OWN_PREFIX + "pad": np.array(spec.pad, np.int64)})
    nodes = [
        helper.make_node("Equal", ["tokens", OWN_PREFIX + "end"], [OWN_PREFIX + "is_end"]),
        helper.make_node("Cast", [OWN_PREFIX + "is_end"], [OWN_PREFIX + "ends"], to=TensorProto.INT64),
        helper.make_node(
            "CumSum", [OWN_PREFIX + "ends", OWN_PREFIX + "along"], [OWN_PREFIX + "ended"], exclusive=1
        ),
        helper.make_node("Equal", [OWN_PREFIX + "ended", OWN_PREFIX + "none"], [OWN_PREFIX + "is_text"]),
    ]
    numbers = {"end": spec.end, "along": 1, "none": 0}
    return _WrappedInput(
        value, [*nodes, last], [-1], {OWN_PREFIX + n: np.array(v, np.int64) for n, v in numbers.items()}
    )


def _wrap_graph(
    model: ModelProto, given: ValueInfoProto, parts: Sequence[_WrappedInput], features: str
) -> ModelProto:
    """The model itself, changed in place: copies of its weights could fill the memory."""
    graph, batches = model.graph, {axis_lengths(part.value)[0] for part in parts}
    if not batches <= {None, 1}:
        raise PullError(f"the graph takes batches of {batches} alone; we need one, or any number")
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    if given.name in taken or any(name.startswith(OWN_PREFIX) for name in taken):
        raise PullError(f"the graph has a tensor of the name {given.name} or {OWN_PREFIX}… already")
    core, length, together = (
        [*graph.node],
        _feature_length(model, features),
        batches == {None} and not _at_run_time(model),
    )
    for former in (graph.node, graph.input, graph.output, graph.value_info):
        del former[:]
    graph.input.append(given)
    graph.output.append(helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["batch", length]))
    for part in parts:
        graph.node.extend(part.nodes)
        graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in part.weights.items())
    if together:
        graph.node.extend(core)
        graph.node.append(helper.make_node("Cast", [features], [OUTPUT_NAME], to=TensorProto.FLOAT))
    else:
        graph.node.append(_one_at_a_time(graph, core, parts, features))
    model.producer_name = "multifold"
    return model


def _one_at_a_time(
    graph: GraphProto, core: Sequence[NodeProto], parts: Sequence[_WrappedInput], features: str
) -> NodeProto:
    """The published nodes in a Scan over the batch; their weights stay outside, loaded once."""
    body = GraphProto(name="one")
    for part in parts:
        every, one, shape = (f"{OWN_PREFIX}{part.value.name}_{word}" for word in ("all", "one", "shape"))
        part_ends = next(node for node in graph.node if part.value.name in node.output)
        part_ends.output[0] = every
        graph.initializer.append(numpy_helper.from_array(np.array([1, *part.one], np.int64), shape))
        body.input.append(
            helper.make_tensor_value_info(one, part.kind, [n if n > 0 else None for n in part.one])
        )
        body.node.append(helper.make_node("Reshape", [one, shape], [part.value.name]))
    flat, found = OWN_PREFIX + "flat", OWN_PREFIX + "feature"
    graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), flat))
    body.node.extend(core)
    body.node.append(helper.make_node("Cast", [features], [OWN_PREFIX + "float"], to=TensorProto.FLOAT))
    body.node.append(helper.make_node("Reshape", [OWN_PREFIX + "float", flat], [found]))
    body.output.append(helper.make_tensor_value_info(found, TensorProto.FLOAT, [None]))
    batch = [f"{OWN_PREFIX}{part.value.name}_all" for part in parts]
    return helper.make_node("Scan", batch, [OUTPUT_NAME], body=body, num_scan_inputs=len(batch))


def _at_run_time(model: ModelProto) -> bool:
    return any(node.op_type.startswith(RUN_TIME_OPERATORS) for node in model.graph.node)


def _feature_length(model: ModelProto, features: str) -> int | None:
    return axis_lengths(next(value for value in model.graph.output if value.name == features))[-1]
