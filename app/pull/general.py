"""The general bundle, made of packages that are installed: a picture classifier and a sentence encoder.

A picture's feature has what it looks like, and then what it means; a text has the latter alone. So texts and
pictures are compared by their meaning, and pictures with pictures by both.
"""

import argparse
import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from app.pull import efficientnet, graphs, verification
from app.pull.bridge import Bridge, class_names
from app.pull.build import CPU_PROVIDER, TOLERANCES
from app.pull.efficientnet import TowerGraph
from app.pull.published_files import PullError
from app.settings import GENERAL_BUNDLE
from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import READER_FOLDER, Bundle, GeometrySpec, ViewSpec, file_hash, stage_bundle
from multifold.bundle.encoder import Encoder
from multifold.bundle.looks import LOOKS_FILE, Looks, write_looks
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.text_reader import (
    GRAPH_FILE,
    MOST_TOKENS,
    ORIGIN_FILE,
    PACKAGED_READERS,
    TOKENIZER_FILE,
    SentenceReader,
    packaged_path,
)
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import needs_extra
from multifold.types import Side
from renderers.cameras import rig
from renderers.contracts import LOOK

with needs_extra("general"):
    from onnx import ModelProto, TensorProto, helper

NAME = "general"
ABOUT = "It knows what the thousand classes of ImageNet show, and English."
TEMPERATURE = 2.0  # of the probabilities of classes
MEANING_SHARE = 0.5  # the length of a picture's meaning, where that of its look is 1
ALIKE: dict[Side, float] = {"image": 0.22}
FITTING_NAME = 0.34  # similarity of a class that a picture looks like: docs/benchmarks/sight.md
SEES: dict[Side, float] = {"image": 1.5, "shape": 0.7}  # measured: docs/benchmarks/sight.md
RIG = "ring6"
CHANNEL_MIDDLE, CHANNEL_SPREAD = 127 / 255, 128 / 255  # by which pixels are normalised
IMAGE = ImageSpec(
    size=efficientnet.SIZE,
    resize="shortest",
    interpolation="bicubic",
    mean=(CHANNEL_MIDDLE,) * 3,
    std=(CHANNEL_SPREAD,) * 3,
)


def run(args: argparse.Namespace) -> int:
    folder = args.bundle or GENERAL_BUNDLE
    bundle = build_general(folder)
    print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {folder}")
    print(f"  {bundle.about} Licence: {bundle.provenance['licence']}")
    return 0


def build_general(folder: Path) -> Bundle:
    """Write the bundle; it takes its place when it is complete and answers its canaries."""
    with stage_bundle(folder) as staging:
        reader = _copy_reader(staging / READER_FOLDER)
        draft = _write_graphs(staging, Bridge.load())
        encoder = Encoder(draft)
        pictures = [np.asarray(one) for one in verification.canary_pictures()]
        canary.record(encoder, verification.canary_texts(), pictures)
        np.savez(draft.path("probe.npz"), text=encoder.texts(verification.probe_texts()).features)
        source = {"pictures": _origin(efficientnet.PACKAGE, efficientnet.SHA256), "texts": reader}
        provenance = {"code": version("multifold"), "licence": efficientnet.LICENCE, "source": source}
        bundles.save(replace(draft, provenance=provenance))
        canary.check(Encoder(bundles.load(staging)))
    return bundles.load(folder)


def _copy_reader(folder: Path) -> dict[str, str]:
    """Put the packaged sentence encoder into a folder; returns where it came from."""
    packaged = next(one for one in PACKAGED_READERS if one.kind is SentenceReader)
    paths = {TOKENIZER_FILE: packaged_path(*packaged.tokenizer), GRAPH_FILE: packaged_path(*packaged.weights)}
    folder.mkdir()
    for name, path in paths.items():
        if path is None:
            raise PullError(f"no installed package has the {name} of {packaged.name}")
        shutil.copyfile(path, folder / name)
    origin = {"name": packaged.name, "licence": packaged.licence}
    (folder / ORIGIN_FILE).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    return origin | _origin(packaged.weights[0], file_hash(folder / GRAPH_FILE))


def _origin(package: str, sha256: str) -> dict[str, str]:
    return {"package": package.replace("_", "-"), "version": version(package), "sha256": sha256}


def _write_graphs(folder: Path, bridge: Bridge) -> Bundle:
    """All graphs and the tokenizer, and the description that fits them."""
    width = bridge.look.shape[1] + bridge.axes.shape[1]
    definition = (folder / READER_FOLDER / TOKENIZER_FILE).read_text(encoding="utf-8")
    (folder / TOKENIZER_FILE).write_text(definition, encoding="utf-8")
    ids = {one["content"]: one["id"] for one in json.loads(definition)["added_tokens"]}
    on_cpu, elsewhere = TOLERANCES["int8"]  # the sentence encoder's
    draft = Bundle(
        folder=folder,
        name=NAME,
        about=ABOUT,
        geometry=GeometrySpec("clip", width, width, "ip"),
        image=IMAGE,
        text=TextSpec("none", MOST_TOKENS, ids["[CLS]"], ids["[SEP]"], ids["[PAD]"], "dynamic"),
        views=ViewSpec(RIG, IMAGE.size, "white", "auto", len(rig(RIG)), LOOK),
        tolerances={f"fp32/{CPU_PROVIDER}": on_cpu, "fp32/*": elsewhere},
        sees=SEES,
        alike=ALIKE,
        text_input="sentences",
        files=bundles.hash_files(folder),
    )
    picture = graphs.image_graph(_picture_tower(bridge, width), IMAGE, "feature")
    graphs.write_graph(picture, draft.path("image.onnx"))
    graphs.write_graph(_text_tower(bridge, width), draft.path("text.onnx"))
    graphs.write_graph(graphs.geometry_graph(), draft.path("geometry.onnx"))
    meanings = np.pad(bridge.classes, ((0, 0), (bridge.look.shape[1], 0)))  # no look
    write_looks(draft.path(LOOKS_FILE), Looks(class_names(), meanings, FITTING_NAME))
    return draft


def _picture_tower(bridge: Bridge, width: int) -> ModelProto:
    """Planes [b, 3, s, s] -> what a picture looks like, and what its likely classes mean."""
    tower = TowerGraph(efficientnet.read_weights())
    pooled = tower.add("GlobalAveragePool", [tower.features], "pooled map")
    pooled = tower.add("Flatten", [pooled], "pooled", axis=1)
    dampened = tower.add("Sqrt", [pooled], "dampened")
    look = tower.add("MatMul", [dampened, tower.constant("look axes", bridge.look)], "look")
    look = _unit(tower, look, 1.0)
    cooled = tower.add("Div", [tower.classify(pooled), tower.constant("temperature", TEMPERATURE)], "cooled")
    likely = tower.add("Softmax", [cooled], "likely", axis=1)
    meaning = tower.add("MatMul", [likely, tower.constant("classes", bridge.classes)], "meaning")
    meaning = _unit(tower, meaning, MEANING_SHARE)
    return tower.model(tower.add("Concat", [look, meaning], "feature", axis=1), width)


def _unit(tower: TowerGraph, vectors: str, length: float) -> str:
    norms = tower.add("ReduceL2", [vectors], f"{vectors} norms", axes=[1], keepdims=1)
    norms = tower.add("Max", [norms, tower.constant("least", graphs.SMALLEST_NORM)], f"{vectors} safe")
    scale = tower.add("Div", [tower.constant(f"{vectors} length", length), norms], f"{vectors} scale")
    return tower.add("Mul", [vectors, scale], f"{vectors} unit")


def _text_tower(bridge: Bridge, width: int) -> ModelProto:
    """The reader's vectors of texts -> no look, and what they mean; a text without a meaning stays zero."""
    numbers, meaning = bridge.axes.shape
    axes = np.zeros((numbers, width), np.float32)
    axes[:, width - meaning :] = bridge.axes
    nodes = [
        helper.make_node("Sub", ["sentences", "middle"], ["centred"]),
        helper.make_node("MatMul", ["centred", "axes"], ["turned"]),
        helper.make_node("ReduceL2", ["turned"], ["norms"], axes=[1], keepdims=1),
        helper.make_node("Max", ["norms", "least"], ["safe"]),
        helper.make_node("Div", ["turned", "safe"], ["unit"]),
        helper.make_node("ReduceL2", ["sentences"], ["lengths"], axes=[1], keepdims=1),
        helper.make_node("Sign", ["lengths"], ["says"]),
        helper.make_node("Mul", ["unit", "says"], ["feature"]),
    ]
    constants = {"middle": bridge.middle, "axes": axes, "least": np.array(graphs.SMALLEST_NORM, np.float32)}
    given = helper.make_tensor_value_info("sentences", TensorProto.FLOAT, ["b", numbers])
    feature = helper.make_tensor_value_info("feature", TensorProto.FLOAT, ["b", width])
    return graphs.own_graph("meaning", nodes, given, feature, constants)
