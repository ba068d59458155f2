"""Smaller bundles of the same encoder: weights in half precision (fp16), or matrices of 8 bits (int8).

A variant has vectors of its own. It may also ask its original's collection: the bundle says what that costs.
Both are measured on held-out items, and neither may lose more recall than the tolerance. Geometry graphs stay
as they are: half precision there costs hyperbolic geometries up to a fifth of their recall.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import onnx

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, BundleError, Tolerance, stage_bundle
from multifold.bundle.encoder import Encoder
from training.data.views import ItemViews
from training.export.bundle import bundle_report, write_probes
from training.retrieval import directions
from training.retrieval.comparison import RecallDifference, compare_recalls, recall_table, recalls
from training.retrieval.directions import RetrievalDirection
from training.retrieval.features import HeldOutFeatures

Variant: TypeAlias = Literal["fp16", "int8"]

VARIANTS: tuple[Variant, ...] = get_args(Variant)
LEAST_WEIGHTS = 256  # numbers in a weight that is worth halving
TOWERS = ("image.onnx", "text.onnx")
LOSSES: Mapping[Variant, float] = {"fp16": 0.005, "int8": 0.02}  # the default tolerance of any recall
CANARY_TOLERANCES: Mapping[Variant, Tolerance] = {
    "fp16": Tolerance(cosine=0.999, norm=1e-2, rank=0.9),
    "int8": Tolerance(cosine=0.99, norm=2e-2, rank=0.9),
}


def write_variant(
    original: Encoder,
    variant: Variant,
    views: ItemViews,
    captions: Sequence[Sequence[str]],
    folder: Path,
    tolerance: float | None = None,
) -> Bundle:
    """A variant's bundle, with its losses on the given items; refused where one is above the tolerance."""
    if original.bundle.variant != "fp32":
        raise BundleError(f"{original.bundle.name} is {original.bundle.variant} already; take its original")
    allowed = LOSSES[variant] if tolerance is None else tolerance
    with stage_bundle(folder) as aside:
        encoder = Encoder(_draft(original.bundle, variant, aside))
        observed = directions.encode(encoder, views, captions)
        originals = directions.encode(original, views, captions)
        before = directions.directions(original, originals)
        alone = compare_recalls(directions.directions(encoder, observed), before)
        across = compare_recalls(_across(encoder, observed, originals), before)
        _check({"alone": alone, "on its original's collection": across}, variant, allowed)
        texts, pictures, _ = canary.read(original.bundle.path(canary.CANARY_FILE))
        canary.record(encoder, texts, pictures)
        write_probes(observed, aside)
        numbers = directions.report(encoder, observed)
        report = (
            f"{bundle_report(encoder.bundle, numbers)}\n"
            f"## {variant} of {original.bundle.name} ({original.bundle.bundle_id})\n\n"
            f"It may ask collections of vectors {original.vector_id}. "
            f"No recall may fall by over {allowed:g}.\n\n"
            f"Alone:\n\n{recall_table(alone)}\n"
            f"Asking its original's collection:\n\n{recall_table(across)}"
        )
        (aside / "report.md").write_text(report, encoding="utf-8")
        serves = {original.vector_id: {"tolerance": allowed, "recalls": recalls(across)}}
        bundles.save(replace(encoder.bundle, evaluation=numbers, serves=serves))
    return bundles.load(folder)


def _draft(original: Bundle, variant: Variant, folder: Path) -> Bundle:
    """The original's files, its towers converted; graphs that nothing reads are left out."""
    converted = (*TOWERS, *(f"{name}.data" for name in TOWERS), "report.md", "probe.npz", canary.CANARY_FILE)
    for name in original.files:
        if name not in converted and not name.startswith(("explain", "points_")):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(original.path(name), folder / name)
    for name in TOWERS:
        if variant == "fp16":
            onnx.save(halve_weights(onnx.load(original.path(name))), folder / name)
        else:
            _quantise(original.path(name), folder / name)
    return replace(
        original,
        folder=folder,
        variant=variant,
        tolerances={f"{variant}/*": CANARY_TOLERANCES[variant]},
        provenance={**original.provenance, "original": original.bundle_id},
        files=bundles.hash_files(folder),
    )


def halve_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Large weights are kept in half precision, and widened again when the graph is loaded.

    Computed in half precision, vision transformers crash ONNX Runtime 1.31 on CPUs when it optimises them.
    """
    small, halves, casts = [], [], []
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        large = values.dtype == np.float32 and values.size >= LEAST_WEIGHTS
        half = values.astype(np.float16) if large else None
        if half is None or not np.array_equal(np.isfinite(half), np.isfinite(values)):
            small.append(weight)
            continue
        name = f"{weight.name}.half"
        halves.append(onnx.numpy_helper.from_array(half, name))
        casts.append(onnx.helper.make_node("Cast", [name], [weight.name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    for field, parts in (("initializer", [*small, *halves]), ("node", nodes)):
        del getattr(model.graph, field)[:]
        getattr(model.graph, field).extend(parts)
    return model


def _quantise(source: Path, path: Path) -> None:
    """Matrices in 8 bits, activations quantised dynamically; the rest, convolutions too, is unchanged."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        source,
        path,
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=True,
        reduce_range=True,  # seven bits of eight: processors without VNNI would overflow
        weight_type=QuantType.QInt8,
        extra_options={"MatMulConstBOnly": True},
    )


def _across(
    encoder: Encoder, queries: HeldOutFeatures, gallery: HeldOutFeatures
) -> dict[str, RetrievalDirection]:
    """The variant's queries, answered by the original's features."""
    texts, shapes = replace(gallery, text=queries.text), replace(gallery, shape=queries.shape)
    crossed_banks = {"text_to_shape": texts, "shape_to_text": shapes}
    return {name: directions.directions(encoder, crossed)[name] for name, crossed in crossed_banks.items()}


def _check(compared: Mapping[str, Sequence[RecallDifference]], variant: Variant, allowed: float) -> None:
    for where, differences in compared.items():
        worst = min(differences, key=lambda each: each.new - each.old)
        if worst.old - worst.new > allowed + 1e-9:
            raise BundleError(
                f"the {variant} variant loses more than {allowed:g} {where}: {worst}. Nothing was written; "
                "--tolerance allows more"
            )
