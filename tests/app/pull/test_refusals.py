"""What cannot become a bundle exactly is refused in a sentence, and what was there before stays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.pull.build import BundleRequest, build_bundle
from app.pull.published_files import PullError, Variant, open_published_folder, recognise_layout
from app.pull.specs import image_spec
from multifold.bundle.preprocess import ImageSpec
from tests.app.pull import published
from tests.app.pull.published import SIZE, clip_seeing


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


def promising(path: Path) -> None:
    """A graph of one picture whose first axis is declared free."""
    made = published.vision([1, 3, SIZE, SIZE], "pixel_values", "image_embeds")
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "b"
    published.save(made, path)


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
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
        lambda folder: published.save(
            published.vision(["b", 3, SIZE, SIZE], "pixel_values", "pooler_output"),
            folder / "onnx/vision_model.onnx",
        ),
        "the graph gives pooler_output, last_hidden_state, where we look for image_embeds",
    ),
    "another square": (
        lambda folder: published.save(
            published.vision(["b", 3, SIZE + 8, SIZE + 8], "pixel_values", "image_embeds"),
            folder / "onnx/vision_model.onnx",
        ),
        "takes .* pixels, its configuration says",
    ),
    "an input that we do not know": (
        lambda folder: published.save(
            published.clip_text(["b", "t"], "tokens_of_text", "text_embeds"), folder / "onnx/text_model.onnx"
        ),
        "the text graph asks for tokens_of_text",
    ),
    "batches that it promises and does not take": (
        lambda folder: promising(folder / "onnx/vision_model.onnx"),
        "cannot be asked in batches",
    ),
    "batches of two": (
        lambda folder: published.save(
            published.clip_text([2, "t"], "input_ids", "text_embeds"), folder / "onnx/text_model.onnx"
        ),
        "takes batches of",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_publication_becomes_a_sentence(case: str, tmp_path: Path) -> None:
    spoil, sentence = CASES[case]
    folder = published.clip(tmp_path / "published")
    spoil(folder)
    with pytest.raises(PullError, match=sentence):
        build_bundle(
            open_published_folder(folder, None, {}), tmp_path / "bundle", BundleRequest("tiny", "Nothing.")
        )
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


@pytest.mark.parametrize(
    ("names", "variant", "sentence"),
    [
        (["onnx/model.onnx", "config.json"], "fp32", "found onnx/model.onnx"),
        (["pytorch_model.bin"], "fp32", "no ONNX graph at all"),
        (["onnx/vision_model.onnx", "onnx/text_model.onnx"], "fp16", "of the variant fp16"),
        (["visual/model.onnx", "textual/model.onnx"], "int8", "come as fp32 alone"),
        (["visual/model.onnx"], "fp32", "laid out as immich does it, but"),
    ],
)
def test_an_unknown_layout_is_told_with_what_is_there(
    names: list[str], variant: Variant, sentence: str
) -> None:
    with pytest.raises(PullError, match=sentence):
        recognise_layout(names, variant)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (clip_seeing(resample=1), "resample 1"),
        (clip_seeing(rescale_factor=1 / 127.5), "rescale_factor"),
        (clip_seeing(do_rescale=False), "do_rescale False"),
        (clip_seeing(do_resize=False), "do_resize False"),
        (clip_seeing(do_pad=True), "the step do_pad"),
        (clip_seeing(do_center_crop=False), "not cropped to a square"),
        (clip_seeing(size={"height": 24, "width": 32}), "no square"),
        (clip_seeing(image_mean=[0.5]), "three numbers"),
        (clip_seeing(image_std=[0, 1, 1]), "std is above zero"),
        ({"size": 24}, "cannot be understood"),
    ],
)
def test_what_cannot_be_seen_exactly_is_refused(said: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    folder = published.clip(tmp_path)
    published.say(folder / "preprocessor_config.json", said)
    source = open_published_folder(folder, None, {})
    with pytest.raises(PullError, match=sentence):
        image_spec(source, recognise_layout(source.names(), "fp32"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (clip_seeing(), ImageSpec(SIZE, "shortest", "bicubic", (0.48, 0.45, 0.4), (0.26, 0.25, 0.27))),
        (
            clip_seeing(size=SIZE, crop_size=SIZE, do_normalize=False, resample=2),
            ImageSpec(SIZE, "shortest", "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        ),
        (
            {"size": SIZE, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
            ImageSpec(SIZE, "squash", "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ),
    ],
)
def test_what_can_be_seen_is_mapped(said: dict[str, Any], expected: ImageSpec, tmp_path: Path) -> None:
    folder = published.clip(tmp_path)
    published.say(folder / "preprocessor_config.json", said)
    source = open_published_folder(folder, None, {})
    assert image_spec(source, recognise_layout(source.names(), "fp32")) == expected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hf_model_name": "facebook/nllb-200-distilled-600M"}, "say --language"),
        ({"tokenizer_kwargs": {"clean": "scrub"}}, "clean = 'scrub'"),
        ({"tokenizer_kwargs": {"strip_sep_token": True}}, "strip_sep_token"),
    ],
)
def test_open_clip_towers_that_read_otherwise_are_refused(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = published.immich(tmp_path / "published", **change)
    with pytest.raises(PullError, match=sentence):
        build_bundle(
            open_published_folder(folder, None, {}), tmp_path / "bundle", BundleRequest("tiny", "Nothing.")
        )


def test_a_resize_that_open_clip_does_and_we_do_not_is_refused(tmp_path: Path) -> None:
    folder = published.immich(tmp_path / "published")
    changed("visual/preprocess_cfg.json", resize_mode="longest")(folder)
    with pytest.raises(PullError, match="resize_mode 'longest'"):
        build_bundle(
            open_published_folder(folder, None, {}), tmp_path / "bundle", BundleRequest("tiny", "Nothing.")
        )


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    source = open_published_folder(published.clip(tmp_path / "published"), None, {"tokenizer.json": "0" * 64})
    with pytest.raises(PullError, match=r"tokenizer.json is not the file that is known"):
        build_bundle(source, tmp_path / "bundle", BundleRequest("tiny", "Nothing."))
