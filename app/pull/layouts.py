"""The two ways in which vision and text towers are commonly published as ONNX graphs.

immich:           visual/ and textual/, each with model.onnx and configuration; config.json is open_clip's
transformers.js:  onnx/vision_model.onnx and onnx/text_model.onnx, and variants of them with a suffix
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from app.pull.source import PullError

Variant: TypeAlias = Literal["fp32", "fp16", "int8"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
VARIANT_SUFFIXES: dict[Variant, str] = {"fp32": "", "fp16": "_fp16", "int8": "_quantized"}


@dataclass(frozen=True)
class TowerLayout:
    """Which file is what."""

    kind: Literal["immich", "transformers.js"]
    image_graph: str
    text_graph: str
    config: str
    seeing: str
    tokenizer: str
    tokenizer_config: str

    @property
    def files(self) -> tuple[str, ...]:
        """What a bundle is made from; weights beside the graphs come on top."""
        small = (self.config, self.seeing, self.tokenizer, self.tokenizer_config)
        return (*small, self.image_graph, self.text_graph)


def recognise_layout(names: Collection[str], variant: Variant) -> TowerLayout:
    """The layout of a repository with these files; refuses with what is there instead."""
    if "visual/model.onnx" in names or "textual/model.onnx" in names:
        found = _immich(variant)
    else:
        found = _transformers_js(names, variant)
    missing = [name for name in found.files if name not in names]
    if missing:
        raise PullError(f"this is laid out as {found.kind} does it, but {missing[0]} is missing")
    return found


def _immich(variant: Variant) -> TowerLayout:
    if variant != "fp32":
        raise PullError(f"towers in immich's layout come as fp32 alone, not as {variant}")
    return TowerLayout(
        kind="immich",
        image_graph="visual/model.onnx",
        text_graph="textual/model.onnx",
        config="config.json",
        seeing="visual/preprocess_cfg.json",
        tokenizer="textual/tokenizer.json",
        tokenizer_config="textual/tokenizer_config.json",
    )


def _transformers_js(names: Collection[str], variant: Variant) -> TowerLayout:
    graphs = [f"onnx/{tower}_model{VARIANT_SUFFIXES[variant]}.onnx" for tower in ("vision", "text")]
    if not any(name in names for name in graphs):
        there = sorted(name for name in names if name.endswith(".onnx")) or ["no ONNX graph at all"]
        raise PullError(
            f"no separate vision and text towers of the variant {variant} are here: looked for {graphs[0]} "
            f"and visual/model.onnx, and found {', '.join(there[:8])}"
        )
    return TowerLayout(
        kind="transformers.js",
        image_graph=graphs[0],
        text_graph=graphs[1],
        config="config.json",
        seeing="preprocessor_config.json",
        tokenizer="tokenizer.json",
        tokenizer_config="tokenizer_config.json",
    )
