"""A pulled bundle answers as the published towers do, asked by hand with a plain preprocessing of our own."""

import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import tokenizers
from onnx import TensorProto
from onnxruntime.quantization import quantize_dynamic
from PIL import Image

from app.pull.build import BundleRequest, build_bundle
from app.pull.published_files import PullError, Variant, open_published_folder
from multifold.bundle.bundle import Bundle
from multifold.bundle.canary import open_encoder
from tests.app.pull import published
from tests.app.pull.published import CONTEXT, SIZE

TEXTS = ["a red chair", "Two  BLUE tables!", "", "a photo of a red circle " * 9]
PICTURES = [(60, 31), (31, 75), (24, 24), (200, 90)]


def int8(folder: Path) -> Path:
    """CLIP, quantised by ONNX Runtime's own tool."""
    published.clip(folder)
    for tower in ("vision", "text"):
        graph = folder / f"onnx/{tower}_model.onnx"
        quantize_dynamic(graph, graph.with_name(f"{tower}_model_quantized.onnx"))
    return folder


CASES: dict[str, tuple[Callable[[Path], Path], Variant, str, float]] = {
    "clip": (published.clip, "fp32", "dynamic", 1e-5),
    "clip that reads on": (lambda folder: published.clip(folder, causal=False), "fp32", "fixed", 1e-5),
    "clip fp16": (lambda f: published.clip(f, "_fp16", TensorProto.FLOAT16), "fp16", "dynamic", 5e-3),
    "clip int8": (int8, "int8", "fixed", 1e-5),
    "siglip": (published.siglip, "fp32", "fixed", 1e-5),
    "siglip 2": (published.siglip2, "fp32", "fixed", 1e-5),
    "jina": (published.jina, "fp32", "dynamic", 1e-5),
    "immich": (published.immich, "fp32", "fixed", 1e-5),
    "immich, bytes": (lambda folder: published.immich(folder, "bytes"), "fp32", "fixed", 1e-5),
    "m-clip": (published.m_clip, "fp32", "fixed", 1e-5),
    "m-clip, filled with its end": (lambda f: published.m_clip(f, "</s>"), "fp32", "fixed", 1e-5),
}


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


def pulled(folder: Path, into: Path, variant: Variant = "fp32") -> Bundle:
    return build_bundle(
        open_published_folder(folder, None, {}), into, BundleRequest("tiny", "Knows nothing.", variant)
    )


@pytest.mark.parametrize("case", CASES)
def test_features_are_those_of_the_published_towers(case: str, tmp_path: Path) -> None:
    build, variant, length, limit = CASES[case]
    folder = build(tmp_path / "published")
    bundle = pulled(folder, tmp_path / "bundle", variant)
    encoder, (image, text) = open_encoder(tmp_path / "bundle"), graphs(folder, variant)
    assert bundle.text.length == length
    np.testing.assert_allclose(
        encoder.pictures(pictures()), images_by_hand(folder, image), rtol=0, atol=limit
    )
    expected = texts_by_hand(folder, text)
    np.testing.assert_allclose(encoder.texts(TEXTS).features, expected, rtol=0, atol=limit)
    alone = np.concatenate([encoder.texts([one]).features for one in TEXTS])
    np.testing.assert_allclose(alone, expected, rtol=0, atol=limit)
    vectors = encoder.vectors(expected)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_what_is_quantised_at_run_time_does_not_look_at_its_neighbours(tmp_path: Path) -> None:
    pulled(int8(tmp_path / "published"), tmp_path / "bundle", "int8")
    encoder = open_encoder(tmp_path / "bundle")
    together = encoder.pictures(pictures())
    np.testing.assert_array_equal(together, np.concatenate([encoder.pictures([one]) for one in pictures()]))


def test_a_bundle_says_where_it_comes_from_and_under_which_licence(tmp_path: Path) -> None:
    bundle = pulled(published.clip(tmp_path / "published"), tmp_path / "bundle")
    source = bundle.provenance["source"]
    assert bundle.provenance["licence"] == "mit"
    assert source["folder"] == "published"
    assert source["layout"] == "transformers.js"
    assert {*source["files"]} >= {"onnx/vision_model.onnx", "onnx/text_model.onnx", "tokenizer.json"}
    assert bundle.views.views == 6
    assert {*bundle.probes()} == {"text"}


def test_the_same_files_give_the_same_vectors_name(tmp_path: Path) -> None:
    folder = published.siglip(tmp_path / "published")
    first, second = pulled(folder, tmp_path / "first"), pulled(folder, tmp_path / "second")
    assert first.vector_id == second.vector_id


def test_large_weights_lie_beside_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    folder = published.clip(tmp_path / "published")
    graph = folder / "onnx/text_model.onnx"
    model = onnx.load(graph)
    onnx.save(model, graph, save_as_external_data=True, location="text_model.onnx_data", size_threshold=100)
    monkeypatch.setattr("app.pull.graphs.LARGE_WEIGHTS", 0)
    bundle = pulled(folder, tmp_path / "bundle")
    assert "onnx/text_model.onnx_data" in bundle.provenance["source"]["files"]
    assert "image.onnx.data" in bundle.files
    expected = texts_by_hand(folder, graph)
    features = open_encoder(tmp_path / "bundle").texts(TEXTS).features
    np.testing.assert_allclose(features, expected, atol=1e-5)


def test_siglip_2_keeps_the_punctuation_of_its_texts(tmp_path: Path) -> None:
    published.siglip2(tmp_path / "published")
    bundle = pulled(tmp_path / "published", tmp_path / "bundle")
    tokenizer = open_encoder(tmp_path / "bundle").tokenizer
    assert bundle.text.cleaning == "lowercase"
    assert len(tokenizer.words("A two-red, chair")) == 3
    assert (tokenizer(["A red, chair"]).ids != tokenizer(["a red chair"]).ids).any()
    assert (tokenizer(["A RED chair"]).ids == tokenizer(["a red chair"]).ids).all()


@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_another_cleaning_than_the_published_one_is_refused(kind: str, tmp_path: Path) -> None:
    """Raw texts tell: punctuation that is taken away, or left."""
    folder = {"siglip": published.siglip2, "siglip2": published.siglip}[kind](tmp_path / "published")
    published.say(
        folder / "config.json", {"model_type": kind, "text_config": {"max_position_embeddings": CONTEXT}}
    )
    with pytest.raises(PullError, match=r"reads 'L-shaped two-seat sofa, 2\.5 m' as"):
        pulled(folder, tmp_path / "bundle")


def test_open_clips_siglip_2_reads_as_siglip_2_was_trained(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "hf_tokenizer_name": "timm/ViT-B-16-SigLIP2",
        "tokenizer_kwargs": {"clean": "canonicalize"},
    }
    folder = published.immich(tmp_path / "published", **said)
    kind = ("<|startoftext|> $A <|endoftext|>", "<|endoftext|>", "GemmaTokenizer")
    published.tokenizer(folder / "textual", published.CLIP, *kind, normalizer=None)
    assert pulled(folder, tmp_path / "bundle").text.cleaning == "lowercase"


def test_nllb_is_told_the_language_of_its_texts(tmp_path: Path) -> None:
    folder = published.nllb(tmp_path / "published")
    source, names = open_published_folder(folder, None, {}), published.NLLB
    english, czech = (
        build_bundle(source, tmp_path / one, BundleRequest("tiny", "Nothing.", language=one))
        for one in ("en", "cs")
    )
    assert (english.text.start, czech.text.start) == (names.index("eng_Latn"), names.index("ces_Latn"))
    assert english.vector_id != czech.vector_id
    assert czech.provenance["source"]["language"] == "cs"
    session = ort.InferenceSession(folder / "textual/model.onnx")
    ids = [names.index(word) for word in ("ces_Latn", "a", "red", "chair", "</s>")]
    row = np.array([ids + [0] * (CONTEXT - len(ids))], np.int32)
    expected = session.run(None, {"text": row})[0]
    features = open_encoder(tmp_path / "cs").texts(["a red chair"]).features
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-5)
    with pytest.raises(PullError, match="no token for the language 'de'"):
        build_bundle(source, tmp_path / "de", BundleRequest("tiny", "Nothing.", language="de"))


def test_a_bundle_states_the_lengths_it_was_trained_for(tmp_path: Path) -> None:
    folder = published.clip(tmp_path / "published")
    request = BundleRequest("tiny", "Nothing.", prefixes=(2, 4))
    build_bundle(open_published_folder(folder, None, {}), tmp_path / "bundle", request)
    encoder = open_encoder(tmp_path / "bundle")
    vectors = encoder.vectors(encoder.texts(["a red chair"]).features)
    cut = encoder.bundle.shorten(vectors, 4)
    np.testing.assert_allclose(cut, vectors[:, :4] / np.linalg.norm(vectors[:, :4]), atol=1e-6)
