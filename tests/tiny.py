"""A tiny but real bundle: it knows the colours of pictures and the words for them, and nothing else.

Features are 16 long. The first three say how much of red, green and blue is missing, the last is
a constant that is all white has, the rest a faint hash of where the colour lies or which words were said.
With points it knows round from square, too.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, GeometrySpec, Tolerance, ViewSpec
from multifold.bundle.encoder import Encoder
from multifold.bundle.looks import LOOKS_FILE, Looks, write_looks
from multifold.bundle.point_groups import PointSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec

SIZE, GRID, FEATURE = 32, 4, 16
COLOURS = {
    "red": (0.0, 1.0, 1.0),
    "green": (1.0, 0.0, 1.0),
    "blue": (1.0, 1.0, 0.0),
    "yellow": (0.0, 0.0, 1.0),
    "black": (1.0, 1.0, 1.0),
    "white": (0.0, 0.0, 0.0),
}
WORDS = ("[PAD]", "[END]", "[UNK]", *COLOURS, "a", "box", "ball", "chair", "with", "legs", "thing")
SPEC = Bundle(
    folder=Path(),
    name="tiny",
    about="Knows six colours and how to say them.",
    geometry=GeometrySpec(
        "sphere", FEATURE, FEATURE, "ip", root=(0.5, 0.5, 0.5, *[0.0] * (FEATURE - 4), 0.5)
    ),
    image=ImageSpec(SIZE, "squash", "bilinear"),
    text=TextSpec("clip", context=12, start=None, end=1, pad=0, length="dynamic"),
    views=ViewSpec("ring6", 48, "white", "auto", 6, "software-1"),
    tolerances={"fp32/*": Tolerance(cosine=0.999, norm=0.01, rank=1.0)},
)


POINTS = PointSpec(points=256, groups=32, neighbours=8, radius=0.4)
ROUND, SQUARE = 4, 5  # places of a feature, known with points
ROUNDNESS = 0.87  # mean distance from the middle: more is round, less is square


def build_with_points(folder: Path, seed: int = 0) -> Bundle:
    """The bundle with a point tower."""
    return build(folder, seed, name="tiny with points", points=POINTS)


def build(folder: Path, seed: int = 0, **changes: Any) -> Bundle:  # noqa: ANN401 (any field)
    """Write the bundle into a folder; `changes` replace fields of its description."""
    folder.mkdir(parents=True, exist_ok=True)
    description = replace(SPEC, folder=folder, **changes)
    rng = np.random.default_rng(seed)
    onnx.save(image_graph(rng), folder / "image.onnx")
    onnx.save(text_graph(rng, shapes=description.points is not None), folder / "text.onnx")
    if description.points is not None:
        onnx.save(points_graph(description.points), folder / "points.onnx")
    onnx.save(geometry_graph(), folder / "geometry.onnx")
    (folder / "tokenizer.json").write_text(tokenizer(), encoding="utf-8")
    encoder = Encoder(replace(description, files=bundles.hash_files(folder)), threads=1)
    texts = [f"a {colour} box" for colour in COLOURS]
    pictures = [picture(colour) for colour in COLOURS]
    canary.record(encoder, texts, pictures)
    probe(encoder, folder / "probe.npz")
    return bundles.save(description)


def build_with_looks(folder: Path, least: float, names: Sequence[str] = tuple(COLOURS)) -> Bundle:
    """The bundle with names of what pictures look like."""
    features = Encoder(build(folder)).texts(names).features
    write_looks(folder / LOOKS_FILE, Looks(names, features, least))
    return bundles.save(bundles.load(folder))


def picture(colour: str, size: int = 40) -> np.ndarray:
    """A square of one colour on white, as pixels."""
    canvas = np.full((size, size, 3), 255, np.uint8)
    canvas[size // 4 : -size // 4, size // 4 : -size // 4] = 255 * (1 - np.array(COLOURS[colour]))
    return canvas


def image_graph(rng: np.random.Generator) -> onnx.ModelProto:
    """pixels uint8 [b, S, S, 3] -> what is missing of white on a coarse grid -> features [b, n]."""
    cells = GRID * GRID
    weights = 0.01 * rng.standard_normal((3 * cells, FEATURE)).astype(np.float32)
    for channel in range(3):
        weights[channel * cells : (channel + 1) * cells, channel] += 1 / cells
    nodes = [
        helper.make_node("Cast", ["pixels"], ["bytes"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["bytes", "full"], ["light"]),
        helper.make_node("Sub", ["one", "light"], ["missing"]),
        helper.make_node("Transpose", ["missing"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("AveragePool", ["planes"], ["grid"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Flatten", ["grid"], ["cells"]),
        helper.make_node("Gemm", ["cells", "weights", "bias"], ["image_features"]),
    ]
    bias = 0.05 * np.eye(FEATURE, dtype=np.float32)[-1]
    constants = {"full": np.float32(255), "one": np.float32(1), "weights": weights, "bias": bias}
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["b", SIZE, SIZE, 3])
    return _model(nodes, pixels, "image_features", constants)


def points_graph(spec: PointSpec) -> onnx.ModelProto:
    """groups [b, g, k, c] -> what is missing of white in their colours, and how round they are [b, n]."""
    weights, bias = np.zeros((4, FEATURE), np.float32), np.zeros(FEATURE, np.float32)
    weights[1:, :3], bias[:3] = -np.eye(3), 1
    weights[0, [ROUND, SQUARE]] = 8, -8
    bias[[ROUND, SQUARE]] = -8 * ROUNDNESS, 8 * ROUNDNESS
    nodes = [
        helper.make_node("Slice", ["groups", "places_from", "places_to", "last"], ["places"]),
        helper.make_node("ReduceL2", ["places"], ["far"], axes=[3], keepdims=1),
        helper.make_node("Slice", ["groups", "colors_from", "colors_to", "last"], ["colors"]),
        helper.make_node("Concat", ["far", "colors"], ["facts"], axis=3),
        helper.make_node("ReduceMean", ["facts"], ["means"], axes=[1, 2], keepdims=0),
        helper.make_node("Gemm", ["means", "weights", "bias"], ["point_features"]),
    ]
    groups = helper.make_tensor_value_info(
        "groups", TensorProto.FLOAT, ["b", spec.groups, spec.neighbours, spec.columns]
    )
    edges = {"places_from": 3, "places_to": 6, "colors_from": spec.columns - 3, "colors_to": spec.columns}
    constants = {name: np.array([edge], np.int64) for name, edge in {**edges, "last": 3}.items()}
    return _model(nodes, groups, "point_features", {**constants, "weights": weights, "bias": bias})


def text_graph(rng: np.random.Generator, *, shapes: bool = False) -> onnx.ModelProto:
    """tokens int64 [b, t] -> the sum of their words' embeddings [b, n]; padding adds nothing."""
    embedding = 0.01 * rng.standard_normal((len(WORDS), FEATURE)).astype(np.float32)
    embedding[:3] = 0
    for colour, missing in COLOURS.items():
        embedding[WORDS.index(colour), :3] = missing
    embedding[WORDS.index("white"), -1] = 1
    if shapes:
        embedding[WORDS.index("ball"), [ROUND, SQUARE]] = 1, -1
        embedding[WORDS.index("box"), [ROUND, SQUARE]] = -1, 1
    nodes = [
        helper.make_node("Gather", ["embedding", "tokens"], ["words"]),
        helper.make_node("ReduceSum", ["words", "axis"], ["text_features"], keepdims=0),
    ]
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["b", "t"])
    return _model(nodes, tokens, "text_features", {"embedding": embedding, "axis": np.array([1], np.int64)})


def geometry_graph(scale: float = 1.0) -> onnx.ModelProto:
    """features [b, n] -> index vectors of unit length (times a scale)."""
    nodes = [
        helper.make_node("ReduceL2", ["features"], ["length"], axes=[1], keepdims=1),
        helper.make_node("Max", ["length", "least"], ["safe"]),
        helper.make_node("Div", ["features", "safe"], ["unit"]),
        helper.make_node("Mul", ["unit", "scale"], ["vectors"]),
    ]
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["b", FEATURE])
    return _model(nodes, features, "vectors", {"least": np.float32(1e-12), "scale": np.float32(scale)})


def tokenizer() -> str:
    """A word-level tokenizer in the `tokenizers` format."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    definition: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    return json.dumps(definition)


def probe(encoder: Encoder, path: Path) -> None:
    """Held-out query features of each side, as an index wants them to measure its recall."""
    seen = encoder.pixels(np.stack([np.full((SIZE, SIZE, 3), shade, np.uint8) for shade in (0, 90, 180)]))
    np.savez(path, text=encoder.texts(list(COLOURS)).features, image=seen, shape=seen)


def _model(
    nodes: list[onnx.NodeProto], argument: onnx.ValueInfoProto, result: str, constants: dict[str, Any]
) -> onnx.ModelProto:
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["b", FEATURE])
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, result, [argument], [output], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
