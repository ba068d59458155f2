"""Published graphs inside ours: pixels or tokens of a whole batch in, float32 features out.

What a published graph asks for is put before it: normalised planes, ids of its own kind, an attention mask.
One that takes a single picture or text at a time stands in a Scan, which hands it each of a batch; so does
one that is quantised at run time, since its scales would depend on the neighbours in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from app.pull.graphs import ids_input, inputs, sizes
from app.pull.source import PullError
from multifold.errors import needs_extra
from multifold.preprocess import ImageSpec
from multifold.tokens import TextSpec

with needs_extra("pull"):
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

OWN = "multifold_"  # what the names of our tensors begin with
OUT = OWN + "features"
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
AT_RUN_TIME = "DynamicQuantize"


@dataclass(frozen=True)
class _Part:
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
    taken = inputs(model)
    if len(taken) != 1:
        names = ", ".join(value.name for value in taken)
        raise PullError(f"the image graph asks for {names}, where we have a picture alone")
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", spec.size, spec.size, 3])
    return _wrapped(model, pixels, [_seen(taken[0], spec)], features)


def text_graph(model: ModelProto, spec: TextSpec, features: str) -> ModelProto:
    """tokens int64 [b, t] -> float32 [b, n]."""
    ids, mask = ids_input(model)
    length = "length" if spec.length == "dynamic" else spec.context
    if sizes(ids)[1] not in (None, spec.context):
        raise PullError(f"the text graph takes {sizes(ids)[1]} tokens, its configuration says {spec.context}")
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", length])
    kind = ids.type.tensor_type.elem_type
    parts = [_Part(ids, [helper.make_node("Cast", ["tokens"], [ids.name], to=kind)], [-1])]
    return _wrapped(model, tokens, parts if mask is None else [*parts, _attended(mask, spec)], features)


def _seen(value: ValueInfoProto, spec: ImageSpec) -> _Part:
    """What an image graph takes: planes, normalised as `preprocess.normalise` does it, or the pixels."""
    kind, shape = value.type.tensor_type.elem_type, sizes(value)
    if kind == TensorProto.UINT8 and len(shape) == 4 and shape[3] == 3:
        _check_size(shape[1:3], spec)
        return _Part(
            value, [helper.make_node("Identity", ["pixels"], [value.name])], [spec.size, spec.size, 3]
        )
    if kind not in FLOATS or len(shape) != 4 or shape[1] not in (None, 3):
        raise PullError(f"the image graph takes {value.name} of the shape {shape}, which is no picture to us")
    _check_size(shape[2:], spec)
    names = [OWN + name for name in ("bytes", "light", "centred", "scaled", "planes")]
    weights = {
        OWN + "full": np.array(255, np.float32),
        OWN + "mean": np.array(spec.mean, np.float32),
        OWN + "std": np.array(spec.std, np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["pixels"], [names[0]], to=TensorProto.FLOAT),
        helper.make_node("Div", [names[0], OWN + "full"], [names[1]]),
        helper.make_node("Sub", [names[1], OWN + "mean"], [names[2]]),
        helper.make_node("Div", [names[2], OWN + "std"], [names[3]]),
        helper.make_node("Transpose", [names[3]], [names[4]], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", [names[4]], [value.name], to=kind),
    ]
    return _Part(value, nodes, [3, spec.size, spec.size], weights)


def _check_size(found: Sequence[int | None], spec: ImageSpec) -> None:
    if any(side not in (None, spec.size) for side in found):
        raise PullError(f"the image graph takes {found} pixels, its configuration says {spec.size}")


def _attended(value: ValueInfoProto, spec: TextSpec) -> _Part:
    """1 where a text is, 0 on its padding: after the first end id, where texts are filled with that id."""
    to = value.type.tensor_type.elem_type
    last = helper.make_node("Cast", [OWN + "is_text"], [value.name], to=to)
    if spec.pad != spec.end:
        nodes = [
            helper.make_node("Equal", ["tokens", OWN + "pad"], [OWN + "is_pad"]),
            helper.make_node("Not", [OWN + "is_pad"], [OWN + "is_text"]),
        ]
        return _Part(value, [*nodes, last], [-1], {OWN + "pad": np.array(spec.pad, np.int64)})
    nodes = [
        helper.make_node("Equal", ["tokens", OWN + "end"], [OWN + "is_end"]),
        helper.make_node("Cast", [OWN + "is_end"], [OWN + "ends"], to=TensorProto.INT64),
        helper.make_node("CumSum", [OWN + "ends", OWN + "along"], [OWN + "ended"], exclusive=1),
        helper.make_node("Equal", [OWN + "ended", OWN + "none"], [OWN + "is_text"]),
    ]
    numbers = {"end": spec.end, "along": 1, "none": 0}
    return _Part(value, [*nodes, last], [-1], {OWN + n: np.array(v, np.int64) for n, v in numbers.items()})


def _wrapped(model: ModelProto, given: ValueInfoProto, parts: Sequence[_Part], features: str) -> ModelProto:
    """The model itself, changed in place: copies of its weights could fill the memory."""
    graph, batches = model.graph, {sizes(part.value)[0] for part in parts}
    if not batches <= {None, 1}:
        raise PullError(f"the graph takes batches of {batches} alone; we need one, or any number")
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    if given.name in taken or any(name.startswith(OWN) for name in taken):
        raise PullError(f"the graph has a tensor of the name {given.name} or {OWN}… already")
    core, length, together = (
        [*graph.node],
        _length(model, features),
        batches == {None} and not _at_run_time(model),
    )
    for former in (graph.node, graph.input, graph.output, graph.value_info):
        del former[:]
    graph.input.append(given)
    graph.output.append(helper.make_tensor_value_info(OUT, TensorProto.FLOAT, ["batch", length]))
    for part in parts:
        graph.node.extend(part.nodes)
        graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in part.weights.items())
    if together:
        graph.node.extend(core)
        graph.node.append(helper.make_node("Cast", [features], [OUT], to=TensorProto.FLOAT))
    else:
        graph.node.append(_one_at_a_time(graph, core, parts, features))
    model.producer_name = "multifold"
    return model


def _one_at_a_time(
    graph: GraphProto, core: Sequence[NodeProto], parts: Sequence[_Part], features: str
) -> NodeProto:
    """The published nodes in a Scan over the batch; their weights stay outside, loaded once."""
    body = GraphProto(name="one")
    for part in parts:
        every, one, shape = (f"{OWN}{part.value.name}_{word}" for word in ("all", "one", "shape"))
        part_ends = next(node for node in graph.node if part.value.name in node.output)
        part_ends.output[0] = every
        graph.initializer.append(numpy_helper.from_array(np.array([1, *part.one], np.int64), shape))
        body.input.append(
            helper.make_tensor_value_info(one, part.kind, [n if n > 0 else None for n in part.one])
        )
        body.node.append(helper.make_node("Reshape", [one, shape], [part.value.name]))
    flat, found = OWN + "flat", OWN + "feature"
    graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), flat))
    body.node.extend(core)
    body.node.append(helper.make_node("Cast", [features], [OWN + "float"], to=TensorProto.FLOAT))
    body.node.append(helper.make_node("Reshape", [OWN + "float", flat], [found]))
    body.output.append(helper.make_tensor_value_info(found, TensorProto.FLOAT, [None]))
    batch = [f"{OWN}{part.value.name}_all" for part in parts]
    return helper.make_node("Scan", batch, [OUT], body=body, num_scan_inputs=len(batch))


def _at_run_time(model: ModelProto) -> bool:
    return any(node.op_type.startswith(AT_RUN_TIME) for node in model.graph.node)


def _length(model: ModelProto, features: str) -> int | None:
    return sizes(next(value for value in model.graph.output if value.name == features))[-1]
