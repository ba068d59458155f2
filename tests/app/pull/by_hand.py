"""What published towers answer, asked by hand with a plain preprocessing of our own."""

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import tokenizers
from PIL import Image

from app.pull.published_files import Variant
from tests.app.pull import published
from tests.app.pull.published import CONTEXT, SIZE

TEXTS = ["a red chair", "Two  BLUE tables!", "", "a photo of a red circle " * 9]
PICTURES = [(60, 31), (31, 75), (24, 24), (200, 90)]


def pictures() -> list[Image.Image]:
    draw = np.random.default_rng(5)
    return [
        Image.fromarray(draw.integers(0, 255, (*size, 3), np.uint8)).resize(size[::-1]) for size in PICTURES
    ]


def seen_by_hand(folder: Path, picture: Image.Image) -> np.ndarray:
    """Resize, cut and scale as the configuration of the towers says; [h, w, 3] between 0 and 255."""
    if "siglip" in (folder / "config.json").read_text():
        return np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR), np.float32)
    width, height = picture.size
    scale = SIZE / min(picture.size)
    near = picture.resize((int(width * scale), int(height * scale)), Image.Resampling.BICUBIC)
    left, top = round((near.width - SIZE) / 2), round((near.height - SIZE) / 2)
    return np.asarray(near.crop((left, top, left + SIZE, top + SIZE)), np.float32)


def normalised_by_hand(folder: Path, seen: np.ndarray) -> np.ndarray:
    siglip = (folder / "config.json").read_text().find("siglip") >= 0
    mean, std = ([0.5] * 3, [0.5] * 3) if siglip else (published.MEAN, published.STD)
    scaled = (seen / 255 - np.array(mean, np.float32)) / np.array(std, np.float32)
    return scaled.transpose(2, 0, 1).astype(np.float32)


def asked(session: Any, given: dict[str, np.ndarray]) -> np.ndarray:  # noqa: ANN401 (untyped library)
    kinds = {"tensor(int32)": np.int32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
    fitting = {
        i.name: given[i.name].astype(kinds.get(i.type, given[i.name].dtype)) for i in session.get_inputs()
    }
    names = [one.name for one in session.get_outputs() if one.name != "last_hidden_state"]
    return np.asarray(session.run(names, fitting)[0], np.float32)


def images_by_hand(folder: Path, graph: Path) -> np.ndarray:
    session = ort.InferenceSession(graph)
    wanted = session.get_inputs()[0]
    seen = [seen_by_hand(folder, picture) for picture in pictures()]
    if wanted.type != "tensor(uint8)":
        seen = [normalised_by_hand(folder, one) for one in seen]
    return np.concatenate([asked(session, {wanted.name: one[None]}) for one in seen])


def texts_by_hand(folder: Path, graph: Path) -> np.ndarray:
    definition = next(folder.rglob("tokenizer.json"))
    reader = tokenizers.Tokenizer.from_file(str(definition))
    said = json.loads(definition.with_name("tokenizer_config.json").read_text())["pad_token"]["content"]
    words = json.loads((folder / "config.json").read_text()).get("text_config", {})
    context = 512 if "pooler_type" in words else CONTEXT
    reader.enable_truncation(context)
    reader.enable_padding(length=context, pad_id=reader.token_to_id(said), pad_token=said)
    session, found = ort.InferenceSession(graph), []
    for text in TEXTS:
        family = json.loads((folder / "config.json").read_text()).get("model_type")
        plain = text.lower() if family == "siglip2" else text
        if family == "siglip":
            plain = text.lower().translate(str.maketrans("", "", string.punctuation))
        read = reader.encode(plain)
        given = {"attention_mask": np.array([read.attention_mask])}
        found.append(
            asked(session, {**given, "input_ids": np.array([read.ids]), "text": np.array([read.ids])})
        )
    return np.concatenate(found)


def graphs(folder: Path, variant: Variant) -> tuple[Path, Path]:
    suffix = {"fp32": "", "fp16": "_fp16", "int8": "_quantized"}[variant]
    if (folder / "visual").exists():
        return folder / "visual/model.onnx", folder / "textual/model.onnx"
    return folder / f"onnx/vision_model{suffix}.onnx", folder / f"onnx/text_model{suffix}.onnx"
