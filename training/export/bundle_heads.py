"""A bundle with heads that have learned: its own graphs, and behind them what is added."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import onnx
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, BundleError, GeometrySpec, stage_bundle
from multifold.bundle.encoder import Encoder
from multifold.bundle.looks import LOOKS_FILE, Looks, read_looks, write_looks
from multifold.errors import MultifoldError
from training.bundle_heads import AddedHead, HeadsJudge, LearnedHeads
from training.export.bundle import bundle_report, write_probes
from training.export.graphs import PARITY, ParityError
from training.retrieval import comparison, directions
from training.retrieval.comparison import RivalEncoder

PREFIX = "heads_"  # of what we add to a graph
SMALLEST_NORM = np.float32(1e-12)  # that a vector is divided by
LEANS = "No bundle is written that finds less on these items, so the differences lean upwards."


class NotBetterError(MultifoldError):
    """Heads that find no more than the bundle alone."""


def check_bundle(bundle: Bundle) -> None:
    """Raise for bundles whose vectors are no plain directions, or that have such heads already."""
    if "heads" in bundle.provenance:
        raise BundleError(f"bundle {bundle.name} has learned already: begin with the one that it came from")
    if bundle.geometry.name != "clip" or bundle.prefixes or bundle.points:
        raise BundleError(
            f"heads are added to bundles of the geometry clip, without shorter vectors and points; "
            f"{bundle.name} has {bundle.geometry.name}"
        )


def write_bundle(
    original: Bundle, learned: LearnedHeads, judge: HeadsJudge, folder: Path, origin: Mapping[str, object]
) -> Bundle:
    """Write the new bundle, if it finds more on held-out items than the original; that stays in any case."""
    if folder.resolve() == original.folder.resolve():
        raise BundleError(f"{folder} has collections of its own vectors: write the new bundle elsewhere")
    new, old = judge.search(learned.model), judge.alone()
    scores = judge.score(learned.model), judge.score_alone()
    if learned.score <= learned.alone or scores[0] <= scores[1]:
        val = f"{learned.score:.3f} on val, where {original.name} alone has {learned.alone:.3f}"
        test = f"{scores[0]:.3f} and {scores[1]:.3f} on test"
        raise NotBetterError(f"what was learned finds no more: {learned.measure} {val}; {test}")
    differences = comparison.compare_recalls(new, old)
    comparison.refuse_worse(differences, original.name, force=False)
    rival = RivalEncoder(original.name, original.bundle_id, {})
    chosen = {name: getattr(learned, name) for name in ("measure", "rate", "step", "share", "score", "alone")}
    heads = {**origin, **chosen, "against": comparison.describe_comparison(differences, rival, forced=False)}
    with stage_bundle(folder) as aside:
        copytree(original.folder, aside, dirs_exist_ok=True)
        (aside / bundles.DESCRIPTION_FILE).unlink()
        model = learned.model
        for name, head in (("image", model.image), ("text", model.text)):
            assert isinstance(head, AddedHead)
            path = aside / f"{name}.onnx"
            onnx.save(with_head(onnx.load(path), head), path)
        width = model.geometry.dim
        onnx.save(unit_graph(width), aside / "geometry.onnx")
        observed = judge.observe(model)
        write_probes(observed, aside)
        if original.has(LOOKS_FILE):
            looks = read_looks(original.path(LOOKS_FILE), original.geometry.feature_dim)
            write_looks(aside / LOOKS_FILE, looks_beside_heads(looks, width, learned.share))
        numbers = {name: directions.numbers(one) for name, one in new.items()}
        draft = replace(
            original,
            folder=aside,
            name=f"{original.name}-own",
            about=f"{original.about} It has learned from captions of your own.",
            geometry=GeometrySpec("clip", width, width, "ip"),
            provenance={**original.provenance, "heads": heads},
            evaluation=numbers,
            serves={},
            alike={},  # of other similarities
        )
        report = bundle_report(draft, numbers)
        report += f"\n## Beside {original.name} alone\n\n{comparison.recall_table(differences)}\n{LEANS}\n"
        (aside / "report.md").write_text(report, encoding="utf-8")
        encoder = Encoder(replace(draft, files=bundles.hash_files(aside)))
        texts, pictures, _ = canary.read(original.path(canary.CANARY_FILE))
        check_heads(encoder, Encoder(original), learned, texts, pictures)
        canary.record(encoder, texts, pictures)
        bundles.save(draft)
    return bundles.load(folder)


def looks_beside_heads(looks: Looks, width: int, share: float) -> Looks:
    """Names for features so wide; they fit the same pictures as before, whatever the heads say."""
    units = looks.features / np.maximum(np.linalg.norm(looks.features, axis=1, keepdims=True), SMALLEST_NORM)
    features = np.pad(units, ((0, 0), (0, width - units.shape[1])))
    return replace(looks, features=features, least=looks.least / math.hypot(1, share))


def check_heads(
    encoder: Encoder, original: Encoder, learned: LearnedHeads, texts: list[str], pictures: list[np.ndarray]
) -> None:
    """Raise where the graphs do not compute what was learned."""
    ours, theirs = (canary.compute_answers(one, texts, pictures) for one in (encoder, original))
    model = learned.model
    for graph, features, head in (
        (ours.text_features, theirs.text_features, model.text),
        (ours.image_features, theirs.image_features, model.image),
    ):
        with torch.inference_mode():
            wanted = head(torch.from_numpy(features)).numpy()
        if not np.abs(graph - wanted).max() <= PARITY:
            raise ParityError(f"a graph differs by {np.abs(graph - wanted).max():.1e} from what was learned")


def with_head(model: ModelProto, head: AddedHead) -> ModelProto:
    """The graph with the head behind its output."""
    graph = model.graph
    if any(name.startswith(PREFIX) for node in graph.node for name in node.output):
        raise BundleError("the graph has heads already")
    (output,) = graph.output
    numbers, width = head.axes.shape
    constants = {
        "matrix": head.matrix.detach().numpy(),
        "share": np.full(1, float(head.share), np.float32),
    }
    nodes = [
        *_unit(output.name, "said"),
        helper.make_node("MatMul", [f"{PREFIX}said", f"{PREFIX}matrix"], [f"{PREFIX}turned"]),
        *_unit(f"{PREFIX}turned", "learned"),
        helper.make_node("Mul", [f"{PREFIX}learned", f"{PREFIX}share"], [f"{PREFIX}added"]),
        helper.make_node("Concat", [f"{PREFIX}said", f"{PREFIX}added"], [f"{PREFIX}feature"], axis=1),
    ]
    constants |= _unit_constants("said", numbers) | _unit_constants("learned", width)
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(one, PREFIX + name) for name, one in constants.items())
    del graph.output[:]
    shape: list[str | int | None] = ["batch", numbers + width]
    graph.output.append(helper.make_tensor_value_info(f"{PREFIX}feature", TensorProto.FLOAT, shape))
    return model


def unit_graph(width: int) -> ModelProto:
    """features [b, n] -> out [b, n] of unit length."""
    tensor = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", width])]
    out = [helper.make_tensor_value_info(f"{PREFIX}out", TensorProto.FLOAT, ["batch", width])]
    constants = _unit_constants("out", width)
    weights = [numpy_helper.from_array(one, PREFIX + name) for name, one in constants.items()]
    graph = helper.make_graph(_unit("features", "out"), "geometry", tensor, out, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _unit(vectors: str, result: str) -> list[onnx.NodeProto]:
    """Vectors at length 1, by operators that are the same in every version; a vector of zeros stays so."""
    ones, least, square, norm, safe = (
        f"{PREFIX}{result}_{what}" for what in ("ones", "least", "square", "norm", "safe")
    )
    return [
        helper.make_node("Mul", [vectors, vectors], [square]),
        helper.make_node("MatMul", [square, ones], [f"{norm}_square"]),
        helper.make_node("Sqrt", [f"{norm}_square"], [norm]),
        helper.make_node("Max", [norm, least], [safe]),
        helper.make_node("Div", [vectors, safe], [PREFIX + result]),
    ]


def _unit_constants(result: str, numbers: int) -> dict[str, np.ndarray]:
    return {f"{result}_ones": np.ones((numbers, 1), np.float32), f"{result}_least": np.full(1, SMALLEST_NORM)}
