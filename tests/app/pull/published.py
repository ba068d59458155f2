"""Tiny towers as others publish them: real graphs and tokenizers in the layouts of the model hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.files import put

SIZE, WIDTH, FEATURES, CONTEXT = 24, 12, 8, 16
WORDS = ("a", "red", "blue", "chair", "table", "circle", "photo", "of", "two")
CLIP = ["[UNK]", *WORDS, "<|startoftext|>", "<|endoftext|>"]  # the end id is the largest, as CLIP's is
SIGLIP = ["[UNK]", "</s>", *WORDS]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
NLLB = ["<pad>", "[UNK]", *WORDS, "eng_Latn", "ces_Latn", "</s>"]
XLM = ["<s>", "<pad>", "</s>", "[UNK]", *WORDS]
MEAN, STD = [0.48, 0.45, 0.40], [0.26, 0.25, 0.27]
Axes = Sequence[int | str | None]


def clip(folder: Path, suffix: str = "", kind: int = TensorProto.FLOAT, causal: bool = True) -> Path:
    """CLIP in the layout of transformers.js: any batch, texts of any length, features and hidden states."""
    save(
        vision(["b", "c", "h", "w"], "pixel_values", "image_embeds", kind),
        folder / f"onnx/vision_model{suffix}.onnx",
    )
    text = clip_text(["b", "t"], "input_ids", "text_embeds", kind=kind, causal=causal)
    save(text, folder / f"onnx/text_model{suffix}.onnx")
    say(folder / "config.json", {"model_type": "clip", "text_config": {"max_position_embeddings": CONTEXT}})
    say(folder / "preprocessor_config.json", clip_seeing())
    tokenizer(folder, CLIP, "<|startoftext|> $A <|endoftext|>", "<|endoftext|>")
    (folder / "README.md").write_text("---\nbase_model: tiny\nlicense: mit\n---\n# Tiny\n", encoding="utf-8")
    return folder


def siglip(folder: Path) -> Path:
    """SigLIP in the layout of transformers.js: pictures squashed, texts filled up, padding read too."""
    save(vision(["b", 3, SIZE, SIZE], "pixel_values", "pooler_output"), folder / "onnx/vision_model.onnx")
    save(siglip_text(), folder / "onnx/text_model.onnx")
    say(folder / "config.json", {"model_type": "siglip", "text_config": {"max_position_embeddings": CONTEXT}})
    square = {"size": {"height": SIZE, "width": SIZE}, "resample": 2, "do_convert_rgb": None}
    say(folder / "preprocessor_config.json", {**square, "image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    tokenizer(folder, SIGLIP, "$A </s>", "</s>", "SiglipTokenizer")
    return folder


def siglip2(folder: Path) -> Path:
    """SigLIP 2: the same towers, whose texts keep their punctuation."""
    siglip(folder)
    say(
        folder / "config.json", {"model_type": "siglip2", "text_config": {"max_position_embeddings": CONTEXT}}
    )
    tokenizer(folder, SIGLIP, "$A </s>", "</s>", "GemmaTokenizer", normalizer=None)
    return folder


def jina(folder: Path) -> Path:
    """Jina's CLIP: configured in open_clip's words; its graph tells texts from their padding."""
    save(vision(["b", 3, SIZE, SIZE], "pixel_values", "image_embeds"), folder / "onnx/vision_model.onnx")
    save(unpadded_text(), folder / "onnx/text_model.onnx")
    texts = {"hf_model_name_or_path": "jinaai/jina-bert-flash-implementation", "pooler_type": "mean_pooler"}
    say(folder / "config.json", {"model_type": "jina_clip", "text_config": texts})
    seeing = {"size": SIZE, "mean": MEAN, "std": STD, "resize_mode": "shortest", "interpolation": "bicubic"}
    kind = {"image_processor_type": "JinaCLIPImageProcessor", "fill_color": 0}
    say(folder / "preprocessor_config.json", {**kind, **seeing})
    tokenizer(folder, BERT, "[CLS] $A [SEP]", "[PAD]", "BertTokenizer")
    return folder


def nllb(folder: Path) -> Path:
    """NLLB in immich's layout: the first token of a text says its language."""
    immich(folder, hf_tokenizer_name="visheratin/nllb", hf_model_name="facebook/nllb-200-distilled-600M")
    text = clip_text([1, CONTEXT], "text", "embedding", ids=TensorProto.INT32)
    table = numpy_helper.from_array(text_weights(len(NLLB))["words"].astype(np.float32), "words")
    stored = next(one for one in text.graph.initializer if one.name == "words")
    stored.CopyFrom(table)
    save(text, folder / "textual/model.onnx")
    tokenizer(folder / "textual", NLLB, "eng_Latn $A </s>", "<pad>", "NllbTokenizer")
    return folder


def immich(folder: Path, taking: str = "planes", **text_cfg: Any) -> Path:  # noqa: ANN401 (any setting)
    """open_clip's CLIP in immich's layout, one picture and text at a time; or of the newer kind."""
    rows: int | str = 1 if taking == "planes" else "b"
    if taking == "planes":
        save(vision([1, 3, SIZE, SIZE], "image", "embedding"), folder / "visual/model.onnx")
    else:
        save(
            vision(["b", SIZE, SIZE, 3], "image", "embedding", TensorProto.UINT8),
            folder / "visual/model.onnx",
        )
    text = clip_text([rows, CONTEXT], "text", "embedding", ids=TensorProto.INT32)
    save(text, folder / "textual/model.onnx")
    say(folder / "config.json", {"text_cfg": {"context_length": CONTEXT, **text_cfg}})
    seeing = {"size": [SIZE, SIZE], "mode": "RGB", "interpolation": "bicubic", "mean": MEAN, "std": STD}
    say(folder / "visual/preprocess_cfg.json", {**seeing, "resize_mode": "shortest", "fill_color": 0})
    tokenizer(folder / "textual", CLIP, "<|startoftext|> $A <|endoftext|>", "<|endoftext|>")
    return folder


def m_clip(folder: Path, pad: str = "<pad>") -> Path:
    """A multilingual text tower with an attention mask, in immich's layout."""
    immich(folder)
    save(masked_text(), folder / "textual/model.onnx")
    tokenizer(folder / "textual", XLM, "<s> $A </s>", pad)
    return folder


def clip_seeing(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 (any setting)
    """CLIP's way of seeing, in the words of transformers."""
    steps = {"do_resize": True, "do_center_crop": True, "do_normalize": True, "do_rescale": True}
    size = {"size": {"shortest_edge": SIZE}, "crop_size": {"height": SIZE, "width": SIZE}, "resample": 3}
    return {**steps, **size, "image_mean": MEAN, "image_std": STD, **changes}


def vision(axes: Axes, name: str, result: str, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Patches, one linear map, tanh, another one; what takes bytes scales them itself."""
    rng, patch = np.random.default_rng(1), 8
    cells, numbers = (SIZE // patch) ** 2 * WIDTH, np.float16 if kind == TensorProto.FLOAT16 else np.float32
    weights = {
        "patches": rng.standard_normal((WIDTH, 3, patch, patch)) * 0.1,
        "hidden": rng.standard_normal((cells, WIDTH)) * 0.3,
        "project": rng.standard_normal((WIDTH, FEATURES)),
    }
    nodes = [
        helper.make_node("Conv", ["planes", "patches"], ["cells"], strides=[patch, patch]),
        helper.make_node("Flatten", ["cells"], ["flat"]),
        helper.make_node("MatMul", ["flat", "hidden"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["last_hidden_state"]),
        helper.make_node("MatMul", ["last_hidden_state", "project"], [result]),
    ]
    if kind == TensorProto.UINT8:
        weights["full"] = np.array(1 / 127.5)
        first = [
            helper.make_node("Cast", [name], ["bytes"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["bytes", "full"], ["light"]),
            helper.make_node("Transpose", ["light"], ["planes"], perm=[0, 3, 1, 2]),
        ]
    else:
        first = [helper.make_node("Identity", [name], ["planes"])]
    results: dict[str, Axes] = {result: ["b", FEATURES], "last_hidden_state": ["b", WIDTH]}
    integers = {"one": np.array([1, cells], np.int64)}
    if axes[0] == 1:  # an export of one picture has its length written into the graph
        nodes[1] = helper.make_node("Reshape", ["cells", "one"], ["flat"])
    if name == "image":
        results.pop("last_hidden_state")
    return model([*first, *nodes], [value(name, kind, axes)], results, weights, integers, numbers)


def clip_text(
    axes: Axes,
    name: str,
    result: str,
    ids: int = TensorProto.INT64,
    kind: int = TensorProto.FLOAT,
    causal: bool = True,
) -> onnx.ModelProto:
    """Each position knows those before it; the first end id is read out, or all if not causal."""
    numbers = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    nodes = [
        helper.make_node("Gather", ["words", name], ["said"]),
        helper.make_node("Cast", ["said"], ["precise"], to=TensorProto.FLOAT),
        helper.make_node("CumSum", ["precise", "along"], ["heard"])
        if causal
        else helper.make_node("ReduceMean", ["precise"], ["heard"], axes=[1], keepdims=1),
        helper.make_node("Cast", ["heard"], ["known"], to=kind),
        helper.make_node("Tanh", ["known"], ["last_hidden_state"]),
        *read_out(name, kind, causal),
        helper.make_node("MatMul", ["read", "project"], [result]),
    ]
    integers = {"along": np.array(1, np.int64), "first": np.array(1, np.int64)}
    if axes[0] == 1:
        nodes.insert(-1, helper.make_node("Reshape", ["read", "one"], ["single"]))
        nodes[-1].input[0] = "single"
        integers["one"] = np.array([1, WIDTH], np.int64)
    results: dict[str, Axes] = {result: ["b", FEATURES]}
    if name != "text":
        results["last_hidden_state"] = ["b", None, WIDTH]
    return model(nodes, [value(name, ids, axes)], results, text_weights(len(CLIP)), integers, numbers)


def read_out(name: str, kind: int, causal: bool) -> list[NodeProto]:
    """The hidden state at the largest id, which is the end id."""
    if not causal:
        return [helper.make_node("Squeeze", ["last_hidden_state", "axis"], ["read"])]
    return [
        helper.make_node("ArgMax", [name], ["end"], axis=1, keepdims=0),
        helper.make_node("Shape", [name], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["length"]),
        helper.make_node("OneHot", ["end", "length", "choice"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["weight"], to=kind),
        helper.make_node("Unsqueeze", ["weight", "axis"], ["row"]),
        helper.make_node("MatMul", ["row", "last_hidden_state"], ["taken"]),
        helper.make_node("Squeeze", ["taken", "axis"], ["read"]),
    ]


def siglip_text() -> onnx.ModelProto:
    """Every position is read, padding too, and the last one most."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["said"]),
        helper.make_node("Mul", ["said", "places"], ["placed"]),
        helper.make_node("ReduceSum", ["placed", "axis"], ["heard"], keepdims=0),
        helper.make_node("Tanh", ["heard"], ["last_hidden_state"]),
        helper.make_node("MatMul", ["last_hidden_state", "project"], ["pooler_output"]),
    ]
    weights = {**text_weights(len(SIGLIP)), "places": np.linspace(0.2, 1.0, CONTEXT)[:, None]}
    given = [value("input_ids", TensorProto.INT64, ["b", "t"])]
    return model(nodes, given, {"last_hidden_state": ["b", WIDTH], "pooler_output": ["b", FEATURES]}, weights)


def unpadded_text() -> onnx.ModelProto:
    """The mean of the words that are no padding."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["said"]),
        helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT),
        helper.make_node("Sign", ["ids"], ["weight"]),
        helper.make_node("Unsqueeze", ["weight", "axis"], ["row"]),
        helper.make_node("MatMul", ["row", "said"], ["sum"]),
        helper.make_node("Squeeze", ["sum", "axis"], ["heard"]),
        helper.make_node("ReduceSum", ["weight", "axis"], ["count"], keepdims=1),
        helper.make_node("Div", ["heard", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "project"], ["text_embeds"]),
    ]
    given = [value("input_ids", TensorProto.INT64, ["b", "t"])]
    return model(nodes, given, {"text_embeds": ["b", FEATURES]}, text_weights(len(BERT)))


def masked_text() -> onnx.ModelProto:
    """The mean of what is attended to, one text at a time."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["said"]),
        helper.make_node("Cast", ["attention_mask"], ["weight"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weight", "axis"], ["row"]),
        helper.make_node("MatMul", ["row", "said"], ["sum"]),
        helper.make_node("Reshape", ["sum", "one"], ["heard"]),
        helper.make_node("ReduceSum", ["weight", "axis"], ["count"], keepdims=1),
        helper.make_node("Div", ["heard", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "project"], ["text_embedding"]),
    ]
    given = [value(name, TensorProto.INT32, [1, CONTEXT]) for name in ("input_ids", "attention_mask")]
    integers = {"one": np.array([1, WIDTH], np.int64)}
    return model(nodes, given, {"text_embedding": ["b", FEATURES]}, text_weights(len(XLM)), integers)


def text_weights(words: int) -> dict[str, np.ndarray]:
    """An embedding and a projection."""
    rng = np.random.default_rng(2)
    return {
        "words": rng.standard_normal((words, WIDTH)) * 0.5,
        "project": rng.standard_normal((WIDTH, FEATURES)),
        "choice": np.array([0.0, 1.0]),
    }


def model(
    nodes: Sequence[NodeProto],
    given: Sequence[ValueInfoProto],
    results: Mapping[str, Axes],
    weights: dict[str, Any],
    integers: dict[str, np.ndarray] | None = None,
    numbers: Any = np.float32,  # noqa: ANN401 (a dtype)
) -> onnx.ModelProto:
    """A graph of these nodes; weights that none of them uses are left out."""
    used = {name for node in nodes for name in node.input}
    constants = {name: np.asarray(value, numbers) for name, value in weights.items()}
    constants |= {**(integers or {}), "axis": np.array([1], np.int64)}
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used]
    kind = TensorProto.FLOAT16 if numbers is np.float16 else TensorProto.FLOAT
    outputs = [value(name, kind, axes) for name, axes in results.items()]
    graph = helper.make_graph(list(nodes), "published", list(given), outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def value(name: str, kind: int, axes: Axes) -> ValueInfoProto:
    """A tensor of this kind and shape."""
    return helper.make_tensor_value_info(name, kind, list(axes))


def tokenizer(
    folder: Path,
    words: Sequence[str],
    template: str,
    pad: str,
    kind: str | None = None,
    normalizer: str | None = "Lowercase",
) -> None:
    """A word-level tokenizer with its framing, and what is said beside it."""
    special = [token for token in template.split() if token != "$A"]
    parts = [
        {"Sequence": {"id": "A", "type_id": 0}} if t == "$A" else {"SpecialToken": {"id": t, "type_id": 0}}
        for t in template.split()
    ]
    tokens = {t: {"id": t, "ids": [words.index(t)], "tokens": [t]} for t in special}
    definition: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer and {"type": normalizer},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": parts,
            "pair": parts,
            "special_tokens": tokens,
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "[UNK]"},
    }
    say(folder / "tokenizer.json", definition)
    said = {"pad_token": {"content": pad}, "padding_side": "right", "tokenizer_class": kind}
    say(folder / "tokenizer_config.json", said)


def say(path: Path, what: dict[str, Any]) -> None:
    """Write a configuration."""
    put(path, json.dumps(what))


def save(made: onnx.ModelProto, path: Path) -> None:
    """Write a graph that the library finds sound."""
    onnx.checker.check_model(made)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(made, path)
