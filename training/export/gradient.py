"""Reverse mode on an ONNX graph: the backward of its last part, written out as forward operations.

From one value back to another, each node on the way gets the nodes that carry its gradient. Shapes are looked
up while the graph runs, so that batches and lengths stay free.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from multifold.errors import MultifoldError

# The graph, a node, the gradient of its output, the place of an input: the gradient of that input.
Rule: TypeAlias = "Callable[[GraphGradient, NodeProto, str, int], str]"


class GradientError(MultifoldError):
    """A graph with an operation whose backward is not known here."""


class GraphGradient:
    """A graph to whose end nodes for gradients are added."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self._numbers = count(1)

    def through(self, output: str, seed: str, to: str) -> str:
        """The name of ∂⟨seed, output⟩/∂to."""
        nodes, variable = list(self.graph.node), {to}
        for node in nodes:
            if node.op_type not in WITHOUT_GRADIENT and variable.intersection(node.input):
                variable.update(node.output)
        if output not in variable:
            raise GradientError(f"{output} does not depend on {to}")
        gradients = {output: seed}
        for node in reversed(nodes):
            if (name := node.output[0]) in gradients and name in variable and name != to:
                self._pass_on(node, gradients, variable)
        return gradients[to]

    def _pass_on(self, node: NodeProto, gradients: dict[str, str], variable: set[str]) -> None:
        if (rule := RULES.get(node.op_type)) is None:
            raise GradientError(f"nothing is known of the backward of {node.op_type}")
        stretches = node.op_type in BROADCASTING
        several = stretches or node.op_type in ("Concat", "Gemm")
        for place, name in enumerate(node.input if several else node.input[:1]):
            if name in variable:
                gradient = rule(self, node, gradients[node.output[0]], place)
                gradient = self.shaped_as(gradient, name) if stretches else gradient
                known = gradients.get(name)
                gradients[name] = gradient if known is None else self.add("Add", known, gradient)

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 (any attribute)
        name = f"backward_{next(self._numbers)}"
        self.graph.node.append(helper.make_node(operation, [*inputs], [name], **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"backward_{next(self._numbers)}"
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def length(self, name: str, axis: int) -> str:
        return self.add("Gather", self.add("Shape", name), self.integers(axis))

    def value(self, name: str) -> np.ndarray:
        """The value of an initializer; refused where it is computed instead."""
        tensor = next((one for one in self.graph.initializer if one.name == name), None)
        if tensor is None:
            raise GradientError(f"{name} is no constant of the graph")
        return numpy_helper.to_array(tensor)

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


def attribute(node: NodeProto, name: str, default: Any) -> Any:  # noqa: ANN401 (any attribute)
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def _mul(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    return on.add("Mul", gradient, node.input[1 - place])


def _div(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    over = on.add("Div", gradient, node.input[1])
    return on.add("Neg", on.add("Mul", over, node.output[0])) if place else over


def _matmul(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    other = _turned(on, node.input[1 - place])
    return on.add("MatMul", other, gradient) if place else on.add("MatMul", gradient, other)


def _turned(on: GraphGradient, name: str) -> str:
    """The last two axes exchanged."""
    shape = on.add("Shape", name)
    last = on.add("Gather", shape, on.integers(-2, -1))
    rows = on.add("Concat", on.integers(-1), last, axis=0)
    turned = on.add("Transpose", on.add("Reshape", name, rows), perm=[0, 2, 1])
    front = on.add("Slice", shape, on.integers(0), on.integers(-2))
    swapped = on.add("Gather", shape, on.integers(-1, -2))
    return on.add("Reshape", turned, on.add("Concat", front, swapped, axis=0))


def _gemm(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    if any(attribute(node, name, 1.0) != 1.0 for name in ("alpha", "beta")) or attribute(node, "transA", 0):
        raise GradientError("a Gemm with alpha, beta or transA is not known here")
    if place:
        raise GradientError("a Gemm is known here with constant weights only")
    return on.add("Gemm", gradient, node.input[1], transB=1 - attribute(node, "transB", 0))


def _layer_norm(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
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
    return on.add("Div", inner, deviation)


def _softmax(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    out, axis = node.output[0], on.integers(attribute(node, "axis", -1))
    weighted = on.add("Mul", gradient, out)
    total = on.add("ReduceSum", weighted, axis, keepdims=1)
    return on.add("Sub", weighted, on.add("Mul", out, total))


def _gelu(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    """Φ(x) + x·φ(x), the exact one."""
    if attribute(node, "approximate", b"none") != b"none":
        raise GradientError("a Gelu by tanh is not known here")
    x = node.input[0]
    error = on.add("Erf", on.add("Mul", x, on.number(0.5**0.5)))
    below = on.add("Mul", on.add("Add", error, on.number(1.0)), on.number(0.5))
    bell = on.add("Exp", on.add("Mul", on.add("Mul", x, x), on.number(-0.5)))
    density = on.add("Mul", bell, on.number((2 * np.pi) ** -0.5))
    return on.add("Mul", gradient, on.add("Add", below, on.add("Mul", x, density)))


def _sigmoid(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    out = node.output[0]
    slope = on.add("Mul", out, on.add("Sub", on.number(1.0), out))
    return on.add("Mul", gradient, slope)


def _pow(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    x, exponent = node.input
    lower = on.add("Sub", exponent, on.number(1.0))
    return on.add("Mul", gradient, on.add("Mul", on.add("Pow", x, lower), exponent))


def _sqrt(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    return on.add("Div", gradient, on.add("Mul", node.output[0], on.number(2.0)))


def _reshape(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    return on.add("Reshape", gradient, on.add("Shape", node.input[0]))


def _transpose(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    order = attribute(node, "perm", None)
    if order is None:
        raise GradientError("a Transpose without an order is not known here")
    return on.add("Transpose", gradient, perm=np.argsort(order).tolist())


def _slice(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    starts, axes = (on.value(node.input[place]).tolist() for place in (1, 3))
    if len(node.input) > 4 and set(on.value(node.input[4]).tolist()) != {1}:
        raise GradientError("a Slice with steps is not known here")
    return _padded(on, gradient, node.input[0], starts, axes)


def _gather(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    axis, places = attribute(node, "axis", 0), on.value(node.input[1])
    if places.size != 1:
        raise GradientError("a Gather of several places is not known here")
    if places.ndim == 0:
        gradient = on.add("Unsqueeze", gradient, on.integers(axis))
    return _padded(on, gradient, node.input[0], [int(places.reshape(-1)[0])], [axis])


def _padded(on: GraphGradient, gradient: str, like: str, starts: Sequence[int], axes: Sequence[int]) -> str:
    """A part's gradient in the shape of the whole: zeros around it on these axes."""
    before, after = [], []
    for start, axis in zip(starts, axes, strict=True):
        whole, first = on.length(like, axis), on.integers(start)
        before.append(first if start >= 0 else on.add("Add", whole, first))
        after.append(on.add("Sub", on.add("Sub", whole, on.length(gradient, axis)), before[-1]))
    ends = on.add("Concat", *before, *after, axis=0)
    return on.add("Pad", gradient, ends, on.number(0.0), on.integers(*axes))


def _gather_elements(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    data, places = node.input
    nothing = on.add("Mul", data, on.number(0.0))
    axis = attribute(node, "axis", 0)
    return on.add("ScatterElements", nothing, places, gradient, axis=axis, reduction="add")


def _concat(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    """Each part's own piece."""
    axis, start = attribute(node, "axis", 0), on.integers(0)
    for name in node.input[:place]:
        start = on.add("Add", start, on.length(name, axis))
    end = on.add("Add", start, on.length(node.input[place], axis))
    return on.add("Slice", gradient, start, end, on.integers(axis))


def _reduce_sum(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    if not attribute(node, "keepdims", 1):
        gradient = on.add("Unsqueeze", gradient, node.input[1])
    return on.add("Expand", gradient, on.add("Shape", node.input[0]))


def _reduce_mean(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    sizes = (on.add("Cast", on.add("Size", name), to=1) for name in (node.output[0], node.input[0]))
    return on.add("Mul", _reduce_sum(on, node, gradient, place), on.add("Div", *sizes))


def _reduce_l2(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    over = on.add("Div", gradient, on.add("Max", node.output[0], on.number(1e-30)))
    return on.add("Mul", node.input[0], _reduce_sum(on, node, over, place))


def _clip(on: GraphGradient, node: NodeProto, gradient: str, _place: int) -> str:
    within = on.add("Equal", node.input[0], node.output[0])
    return on.add("Where", within, gradient, on.number(0.0))


def _where(on: GraphGradient, node: NodeProto, gradient: str, place: int) -> str:
    zero = on.number(0.0)
    return on.add("Where", node.input[0], *((gradient, zero) if place == 1 else (zero, gradient)))


def _identity(_on: GraphGradient, _node: NodeProto, gradient: str, _place: int) -> str:
    return gradient


WITHOUT_GRADIENT = ("Shape", "Size", "ArgMax", "Equal", "Not", "Greater", "Less")
BROADCASTING = ("Add", "Sub", "Mul", "Div", "MatMul", "Where", "Expand")
RULES: Mapping[str, Rule] = {
    "Add": _identity,
    "Sub": lambda on, _node, gradient, place: on.add("Neg", gradient) if place else gradient,
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
    "Expand": _identity,
    "Concat": _concat,
    "ReduceSum": _reduce_sum,
    "ReduceMean": _reduce_mean,
    "ReduceL2": _reduce_l2,
    "Clip": _clip,
    "Where": _where,
    "Identity": _identity,
    "Cast": _identity,
}
