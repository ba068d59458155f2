"""Tiny text readers in the layouts that are published: a table of vectors, and a sentence encoder."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from jaxtyping import Float32
from onnx import TensorProto, helper, numpy_helper

WORDS = ("[PAD]", "[UNK]", "a", "red", "crimson", "toy", "car", "wooden", "chair", "beach", "##s", "guitar")
DIM = 8
CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "int8": "I8", "int64": "I64", "int32": "I32"}


def table(dim: int = DIM, rows: int = len(WORDS)) -> Float32[np.ndarray, "w d"]:
    """A vector for each word; those of "red" and "crimson" are close."""
    vectors = np.random.default_rng(5).standard_normal((rows, dim)).astype(np.float32)
    if rows > 4:
        vectors[4] = vectors[3] + 0.1 * vectors[4]
    return vectors


def write_table_reader(folder: Path, *, padded: bool = False, **tables: np.ndarray) -> Path:
    """A folder as the library model2vec writes it; without tables, one of float32."""
    folder.mkdir(parents=True, exist_ok=True)
    write_published(folder / "model.safetensors", tables or {"embeddings": table()})
    write_tokenizer(folder, padded=padded)
    stated = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
    (folder / "config.json").write_text(json.dumps(stated), encoding="utf-8")
    return folder


def write_published(path: Path, tables: dict[str, np.ndarray]) -> None:
    """The safetensors layout, written from its description and not by our own code."""
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    data = b""
    for name, one in tables.items():
        places = [len(data), len(data) + one.nbytes]
        header[name] = {"dtype": CODES[one.dtype.name], "shape": one.shape, "data_offsets": places}
        data += one.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_tokenizer(folder: Path, *, padded: bool = False) -> None:
    """WordPiece as BERT has it, with padding and cutting switched on as some publish it."""
    definition: dict[str, Any] = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
        if padded
        else None,
        "padding": {
            "strategy": {"Fixed": 6},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        }
        if padded
        else None,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: place for place, word in enumerate(WORDS)},
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")


def write_sentence_reader(folder: Path, *, rounds: bool = False) -> Path:
    """A graph from ids and mask to a vector a token, whose padding is not zero: the mask is needed.

    One that rounds does so by the largest number of all that it reads at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"])
        for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "t", DIM])
    weights = numpy_helper.from_array(table(), "table")
    exact = "exact" if rounds else "last_hidden_state"
    nodes = [helper.make_node("Gather", ["table", "input_ids"], [exact])]
    if rounds:
        steps = ["steps", "size", "zero"]
        nodes.append(helper.make_node("DynamicQuantizeLinear", [exact], steps))
        nodes.append(helper.make_node("DequantizeLinear", steps, ["last_hidden_state"]))
    graph = helper.make_graph(nodes, "sentences", given, [out], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "model.onnx")
    write_tokenizer(folder)
    return folder
