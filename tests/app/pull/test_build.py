"""A bundle of published towers answers as they do; what cannot become one exactly is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto
from onnxruntime.quantization import quantize_dynamic

from app.pull.build import BundleRequest, build_bundle
from app.pull.published_files import PullError, Variant, open_published_folder
from multifold.bundle.bundle import Bundle
from multifold.bundle.canary import open_encoder
from tests.app.pull import published
from tests.app.pull.by_hand import TEXTS, graphs, images_by_hand, pictures, texts_by_hand
from tests.app.pull.published import CONTEXT, SIZE


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
    files = open_published_folder(published.clip(tmp_path / "published"), None, {})
    request = BundleRequest("tiny", "Nothing.", prefixes=(2, 4))
    bundle = build_bundle(files, tmp_path / "bundle", request)
    assert bundle.prefixes == (2, 4)
    assert build_bundle(files, tmp_path / "again", request).vector_id == bundle.vector_id
    source = bundle.provenance["source"]
    assert bundle.provenance["licence"] == "mit"
    assert source["folder"] == "published"
    assert source["layout"] == "transformers.js"
    assert {*source["files"]} >= {"onnx/vision_model.onnx", "onnx/text_model.onnx", "tokenizer.json"}
    assert bundle.views.views == 6
    assert {*bundle.probes()} == {"text"}


def test_large_weights_lie_beside_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def changed(path: str, **changes: Any) -> Callable[[Path], None]:  # noqa: ANN401 (any setting)
    def change(folder: Path) -> None:
        file = folder / path
        published.say(file, {**json.loads(file.read_text()), **changes})

    return change


def without(path: str) -> Callable[[Path], None]:
    return lambda folder: (folder / path).unlink()


def filled(path: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_bytes(content)


def cut(path: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes()[:-200])


def framed(template: str, pad: str = "<|endoftext|>") -> Callable[[Path], None]:
    return lambda folder: published.tokenizer(folder, published.CLIP, template, pad)


def seeing(axes: published.Axes, result: str = "image_embeds") -> Callable[[Path], None]:
    graph = published.vision(axes, "pixel_values", result)
    return lambda folder: published.save(graph, folder / "onnx/vision_model.onnx")


def reading(axes: published.Axes, name: str = "input_ids") -> Callable[[Path], None]:
    graph = published.clip_text(axes, name, "text_embeds")
    return lambda folder: published.save(graph, folder / "onnx/text_model.onnx")


def promising(path: Path) -> None:
    """A graph of one picture whose first axis is declared free."""
    made = published.vision([1, 3, SIZE, SIZE], "pixel_values", "image_embeds")
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "b"
    published.save(made, path)


REFUSALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no text tower": (without("onnx/text_model.onnx"), "onnx/text_model.onnx is missing"),
    "no tokenizer": (without("tokenizer.json"), "tokenizer.json is missing"),
    "no configuration": (without("config.json"), "config.json is missing"),
    "damaged configuration": (filled("config.json", b'{"model_type": '), "config.json is damaged"),
    "no object": (filled("preprocessor_config.json", b"[]"), "no JSON object"),
    "damaged tokenizer": (filled("tokenizer.json", b"{}"), "tokenizer.json is damaged"),
    "damaged graph": (cut("onnx/vision_model.onnx"), "no whole ONNX graph"),
    "no graph": (filled("onnx/text_model.onnx", b"<html>not found</html>"), "no whole ONNX graph"),
    "another family": (changed("config.json", model_type="blip"), "the model is a 'blip'"),
    "another size": (
        changed("preprocessor_config.json", size={"shortest_edge": 32}),
        "a crop to .* after a resize to 32",
    ),
    "padding on the left": (changed("tokenizer_config.json", padding_side="left"), "on their left"),
    "no padding": (changed("tokenizer_config.json", pad_token=None), "names no pad token"),
    "no end": (framed("<|startoftext|> $A"), "frames a text with"),
    "two ends": (framed("$A <|endoftext|> <|endoftext|>"), "frames a text with"),
    "no projection": (
        seeing(["b", 3, SIZE, SIZE], "pooler_output"),
        "the graph gives pooler_output, last_hidden_state, where we look for image_embeds",
    ),
    "another square": (seeing(["b", 3, SIZE + 8, SIZE + 8]), "takes .* pixels, its configuration says"),
    "an input that we do not know": (
        reading(["b", "t"], "tokens_of_text"),
        "the text graph asks for tokens_of_text",
    ),
    "batches that it promises and does not take": (
        lambda folder: promising(folder / "onnx/vision_model.onnx"),
        "cannot be asked in batches",
    ),
    "batches of two": (reading([2, "t"]), "takes batches of"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_bad_publication_becomes_a_sentence(case: str, tmp_path: Path) -> None:
    spoil, sentence = REFUSALS[case]
    folder = published.clip(tmp_path / "published")
    spoil(folder)
    with pytest.raises(PullError, match=sentence):
        pulled(folder, tmp_path / "bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hf_model_name": "facebook/nllb-200-distilled-600M"}, "say --language"),
        ({"tokenizer_kwargs": {"clean": "scrub"}}, "clean = 'scrub'"),
        ({"tokenizer_kwargs": {"strip_sep_token": True}}, "strip_sep_token"),
        ({}, "resize_mode 'longest'"),
    ],
)
def test_open_clip_towers_that_read_or_see_otherwise_are_refused(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = published.immich(tmp_path / "published", **change)
    if not change:
        changed("visual/preprocess_cfg.json", resize_mode="longest")(folder)
    with pytest.raises(PullError, match=sentence):
        pulled(folder, tmp_path / "bundle")


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    source = open_published_folder(published.clip(tmp_path / "published"), None, {"tokenizer.json": "0" * 64})
    with pytest.raises(PullError, match=r"tokenizer.json is not the file that is known"):
        build_bundle(source, tmp_path / "bundle", BundleRequest("tiny", "Nothing."))
