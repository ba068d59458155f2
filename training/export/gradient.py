"""Reverse mode on an ONNX graph: the backward of its last part, written out as forward operations.

`Backward` walks from one value back to another and appends, for each node on the way, the nodes that carry
its gradient. Shapes are looked up while the graph runs, so that batches and lengths stay free.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from multifold.errors import MultifoldError

Rule: TypeAlias = "Callable[[GraphGradient, NodeProto, str], Sequence[str | None]]"


class GradientError(MultifoldError):
    """A graph with an operation whose backward is not known here."""


class GraphGradient:
    """A graph to whose end nodes for gradients are added."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self._made = 0
        self._variable: set[str] = set()

    def through(self, output: str, seed: str, to: str) -> str:
        """The name of ∂⟨seed, output⟩/∂to."""
        nodes = list(self.graph.node)
        self._variable = reached_values(nodes, to)
        if output not in self._variable:
            raise GradientError(f"{output} does not depend on {to}")
        gradients = {output: seed}
        for node in reversed(nodes):
            if node.output[0] in gradients and node.output[0] in self._variable and node.output[0] != to:
                self._pass_on(node, gradients)
        return gradients[to]

    def _pass_on(self, node: NodeProto, gradients: dict[str, str]) -> None:
        rule = RULES.get(node.op_type)
        if rule is None:
            raise GradientError(f"nothing is known of the backward of {node.op_type}")
        for name, gradient in zip(node.input, rule(self, node, gradients[node.output[0]]), strict=False):
            if gradient is not None and name in self._variable:
                known = gradients.get(name)
                gradients[name] = gradient if known is None else self.add("Add", known, gradient)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 (any attribute)
        self._made += 1
        name = f"backward_{self._made}"
        self.graph.node.append(helper.make_node(operation, [*inputs], [name], **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        self._made += 1
        name = f"backward_{self._made}"
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def value(self, name: str) -> np.ndarray:
        """The value of an initializer; refused where it is computed instead."""
        found = next((one for one in self.graph.initializer if one.name == name), None)
        if found is None:
            raise GradientError(f"{name} is no constant of the graph")
        return numpy_helper.to_array(found)

    def needs(self, name: str) -> bool:
        """Whether the gradient of a value is needed."""
        return name in self._variable

    def shaped_as(self, gradient: str, like: str) -> str:
        """A gradient summed over the axes that broadcasting had stretched."""
        target, source = self.add("Shape", like), self.add("Shape", gradient)
        missing = self.add("Sub", self.add("Shape", source), self.add("Shape", target))
        one = numpy_helper.from_array(np.ones(1, np.int64))
        ones = self.add("ConstantOfShape", missing, value=one)
        padded = self.add("Concat", ones, target, axis=0)
        differ = self.add("Not", self.add("Equal", padded, source))
        axes = self.add("Squeeze", self.add("NonZero", differ), self.integers(0))
        summed = self.add("ReduceSum", gradient, axes, keepdims=1, noop_with_empty_axes=1)
        return self.add("Reshape", summed, target)


def reached_values(nodes: Sequence[NodeProto], start: str) -> set[str]:
    """The values that depend on one, itself included; shapes do not count."""
    found = {start}
    for node in nodes:
        if node.op_type not in WITHOUT_GRADIENT and any(name in found for name in node.input):
            found.update(node.output)
    return found


def attribute(node: NodeProto, name: str, default: Any) -> Any:  # noqa: ANN401 (any attribute)
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def _add(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    return [on.shaped_as(gradient, name) if on.needs(name) else None for name in node.input]


def _sub(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    first, second = node.input
    return [
        on.shaped_as(gradient, first) if on.needs(first) else None,
        on.shaped_as(on.add("Neg", gradient), second) if on.needs(second) else None,
    ]


def _mul(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    first, second = node.input
    pairs = ((first, second), (second, first))
    return [
        on.shaped_as(on.add("Mul", gradient, other), name) if on.needs(name) else None
        for name, other in pairs
    ]


def _div(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    first, second = node.input
    over = on.add("Div", gradient, second)
    below = on.add("Neg", on.add("Mul", over, node.output[0])) if on.needs(second) else None
    return [
        on.shaped_as(over, first) if on.needs(first) else None,
        None if below is None else on.shaped_as(below, second),
    ]


def _matmul(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    first, second = node.input
    found: list[str | None] = [None, None]
    if on.needs(first):
        found[0] = on.shaped_as(on.add("MatMul", gradient, _turned(on, second)), first)
    if on.needs(second):
        found[1] = on.shaped_as(on.add("MatMul", _turned(on, first), gradient), second)
    return found


def _turned(on: GraphGradient, name: str) -> str:
    """The last two axes exchanged."""
    shape = on.add("Shape", name)
    last = on.add("Gather", shape, on.integers(-2, -1))
    rows = on.add("Concat", on.integers(-1), last, axis=0)
    turned = on.add("Transpose", on.add("Reshape", name, rows), perm=[0, 2, 1])
    front = on.add("Slice", shape, on.integers(0), on.integers(-2))
    swapped = on.add("Gather", shape, on.integers(-1, -2))
    return on.add("Reshape", turned, on.add("Concat", front, swapped, axis=0))


def _gemm(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    if any(attribute(node, name, 1.0) != 1.0 for name in ("alpha", "beta")) or attribute(node, "transA", 0):
        raise GradientError("a Gemm with alpha, beta or transA is not known here")
    if any(on.needs(name) for name in node.input[1:]):
        raise GradientError("a Gemm is known here with constant weights only")
    return [on.add("Gemm", gradient, node.input[1], transB=1 - attribute(node, "transB", 0))]


def _layer_norm(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    """With x̂ = (x − mean)/σ and h = g·scale: (h − mean(h) − x̂·mean(h·x̂))/σ, means over the last axis."""
    if attribute(node, "axis", -1) != -1:
        raise GradientError("a LayerNormalization over more than the last axis is not known here")
    x, scale = node.input[:2]
    last = on.integers(-1)

    def mean(name: str) -> str:
        return on.add("ReduceMean", name, last, keepdims=1)

    apart = on.add("Sub", x, mean(x))
    variance = on.add("Add", mean(on.add("Mul", apart, apart)), on.number(attribute(node, "epsilon", 1e-5)))
    deviation = on.add("Sqrt", variance)
    hat, scaled = on.add("Div", apart, deviation), on.add("Mul", gradient, scale)
    along = on.add("Mul", hat, mean(on.add("Mul", scaled, hat)))
    inner = on.add("Sub", on.add("Sub", scaled, mean(scaled)), along)
    return [on.add("Div", inner, deviation)]


def _softmax(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    out, axis = node.output[0], on.integers(attribute(node, "axis", -1))
    weighted = on.add("Mul", gradient, out)
    total = on.add("ReduceSum", weighted, axis, keepdims=1)
    return [on.add("Sub", weighted, on.add("Mul", out, total))]


def _gelu(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    """Φ(x) + x·φ(x), the exact one."""
    if attribute(node, "approximate", b"none") != b"none":
        raise GradientError("a Gelu by tanh is not known here")
    x = node.input[0]
    error = on.add("Erf", on.add("Mul", x, on.number(0.5**0.5)))
    below = on.add("Mul", on.add("Add", error, on.number(1.0)), on.number(0.5))
    bell = on.add("Exp", on.add("Mul", on.add("Mul", x, x), on.number(-0.5)))
    density = on.add("Mul", bell, on.number((2 * np.pi) ** -0.5))
    return [on.add("Mul", gradient, on.add("Add", below, on.add("Mul", x, density)))]


def _sigmoid(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    out = node.output[0]
    slope = on.add("Mul", out, on.add("Sub", on.number(1.0), out))
    return [on.add("Mul", gradient, slope)]


def _pow(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    x, exponent = node.input
    lower = on.add("Sub", exponent, on.number(1.0))
    return [on.add("Mul", gradient, on.add("Mul", on.add("Pow", x, lower), exponent))]


def _sqrt(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    return [on.add("Div", gradient, on.add("Mul", node.output[0], on.number(2.0)))]


def _reshape(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    return [on.add("Reshape", gradient, on.add("Shape", node.input[0]))]


def _transpose(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    order = attribute(node, "perm", None)
    if order is None:
        raise GradientError("a Transpose without an order is not known here")
    return [on.add("Transpose", gradient, perm=np.argsort(order).tolist())]


def _slice(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    """Zeros around it, on axes that are constants; steps of one."""
    starts, axes = (on.value(node.input[place]).tolist() for place in (1, 3))
    if len(node.input) > 4 and set(on.value(node.input[4]).tolist()) != {1}:
        raise GradientError("a Slice with steps is not known here")
    shape = on.add("Shape", node.input[0])
    lengths = [on.add("Gather", shape, on.integers(axis)) for axis in axes]
    own = [on.add("Gather", on.add("Shape", gradient), on.integers(axis)) for axis in axes]
    before = [
        on.integers(start) if start >= 0 else on.add("Add", length, on.integers(start))
        for start, length in zip(starts, lengths, strict=True)
    ]
    after = [
        on.add("Sub", on.add("Sub", length, part), first)
        for length, part, first in zip(lengths, own, before, strict=True)
    ]
    zero = on.number(0.0)
    return [on.add("Pad", gradient, on.add("Concat", *before, *after, axis=0), zero, on.integers(*axes))]


def _gather(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    """One constant place of an axis: that place again, between zeros."""
    axis, places = attribute(node, "axis", 0), on.value(node.input[1])
    if places.size != 1:
        raise GradientError("a Gather of several places is not known here")
    if places.ndim == 0:
        gradient = on.add("Unsqueeze", gradient, on.integers(axis))
    length = on.add("Gather", on.add("Shape", node.input[0]), on.integers(axis))
    place = int(places.reshape(-1)[0])
    before = on.integers(place) if place >= 0 else on.add("Add", length, on.integers(place))
    after = on.add("Sub", on.add("Sub", length, before), on.integers(1))
    return [
        on.add("Pad", gradient, on.add("Concat", before, after, axis=0), on.number(0.0), on.integers(axis))
    ]


def _gather_elements(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    data, places = node.input
    nothing = on.add("Mul", data, on.number(0.0))
    axis = attribute(node, "axis", 0)
    return [on.add("ScatterElements", nothing, places, gradient, axis=axis, reduction="add")]


def _expand(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    return [on.shaped_as(gradient, node.input[0])]


def _concat(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    """Each part's own piece."""
    axis, found, start = attribute(node, "axis", 0), [], on.integers(0)
    for name in node.input:
        length = on.add("Gather", on.add("Shape", name), on.integers(axis))
        end = on.add("Add", start, length)
        found.append(on.add("Slice", gradient, start, end, on.integers(axis)) if on.needs(name) else None)
        start = end
    return found


def _reduce_sum(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    return [_stretched(on, node, gradient)]


def _reduce_mean(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    sizes = (on.add("Cast", on.add("Size", name), to=1) for name in (node.output[0], node.input[0]))
    return [on.add("Mul", _stretched(on, node, gradient), on.add("Div", *sizes))]


def _reduce_l2(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    x = node.input[0]
    least = on.number(1e-30)
    over = on.add("Div", gradient, on.add("Max", node.output[0], least))
    return [on.add("Mul", x, _stretched(on, node, over))]


def _stretched(on: GraphGradient, node: NodeProto, gradient: str) -> str:
    """The gradient of a sum over axes, in the original shape."""
    if not attribute(node, "keepdims", 1):
        gradient = on.add("Unsqueeze", gradient, node.input[1])
    return on.add("Expand", gradient, on.add("Shape", node.input[0]))


def _clip(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    kept = on.add("Equal", node.input[0], node.output[0])
    return [on.add("Where", kept, gradient, on.number(0.0))]


def _where(on: GraphGradient, node: NodeProto, gradient: str) -> list[str | None]:
    condition, first, second = node.input
    zero = on.number(0.0)
    return [
        None,
        on.shaped_as(on.add("Where", condition, gradient, zero), first) if on.needs(first) else None,
        on.shaped_as(on.add("Where", condition, zero, gradient), second) if on.needs(second) else None,
    ]


def _identity(_on: GraphGradient, _node: NodeProto, gradient: str) -> list[str | None]:
    return [gradient]


WITHOUT_GRADIENT = ("Shape", "Size", "ArgMax", "Equal", "Not", "Greater", "Less")
RULES: Mapping[str, Rule] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "Softmax": _softmax,
    "Gelu": _gelu,
    "Sigmoid": _sigmoid,
    "Pow": _pow,
    "Sqrt": _sqrt,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Transpose": _transpose,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Expand": _expand,
    "Concat": _concat,
    "ReduceSum": _reduce_sum,
    "ReduceMean": _reduce_mean,
    "ReduceL2": _reduce_l2,
    "Clip": _clip,
    "Where": _where,
    "Identity": _identity,
    "Cast": _identity,
}
