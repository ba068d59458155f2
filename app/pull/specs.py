"""The preprocessing of published encoders, from their own configuration: pictures and texts.

A step that cannot be done exactly is refused. The ids that frame a text are asked of the published tokenizer,
and our tokens are compared with its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tokenizers

from app.pull.layouts import TowerLayout
from app.pull.source import PublishedFiles, PullError
from multifold.bundle.preprocess import ImageError, ImageSpec
from multifold.bundle.tokenizer import Cleaning, TextError, TextSpec, Tokenizer, clean

Resize = Literal["shortest", "squash"]
Interpolation = Literal["bicubic", "bilinear"]

PILLOW_FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}
BYTE = 1 / 255
EXPECTED_STEPS = {"do_resize": True, "do_rescale": True}  # steps that we take always
KNOWN_STEPS = {"do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb"}


def image_spec(source: PublishedFiles, layout: TowerLayout) -> ImageSpec:
    """The image preprocessing of published towers."""
    said = source.json(layout.seeing)
    try:
        return _open_clip_image(said) if layout.kind == "immich" else _transformers_image(said)
    except (KeyError, TypeError, ValueError) as error:
        raise PullError(f"{layout.seeing} cannot be understood: {error!r}") from error
    except (ImageError, PullError) as error:
        raise PullError(f"{layout.seeing} asks for what we cannot do exactly: {error}") from error


def _open_clip_image(said: Mapping[str, Any]) -> ImageSpec:
    _check_same("mode", said.get("mode", "RGB"), "RGB")
    resize: Resize = "squash" if said.get("resize_mode") == "squash" else "shortest"
    _check_same("resize_mode", said.get("resize_mode", "shortest"), resize)
    size, mean, std = _square(said["size"]), _three_numbers(said["mean"]), _three_numbers(said["std"])
    return ImageSpec(size, resize, said["interpolation"], mean, std)


def _transformers_image(said: Mapping[str, Any]) -> ImageSpec:
    for step, wanted in EXPECTED_STEPS.items():
        _check_same(step, said.get(step, True), wanted)
    for step in sorted(said):
        if step.startswith("do_") and step not in KNOWN_STEPS and said[step]:
            raise PullError(f"the step {step}")
    if abs(said.get("rescale_factor", BYTE) - BYTE) > 1e-9:
        raise PullError(f"rescale_factor {said['rescale_factor']}, not 1/255")
    size, resize = _size(said)
    if said["resample"] not in PILLOW_FILTERS:
        raise PullError(f"resample {said['resample']}; there are {PILLOW_FILTERS}")
    normalised = said.get("do_normalize", True)
    mean = _three_numbers(said["image_mean"]) if normalised else (0.0, 0.0, 0.0)
    std = _three_numbers(said["image_std"]) if normalised else (1.0, 1.0, 1.0)
    return ImageSpec(size, resize, PILLOW_FILTERS[said["resample"]], mean, std)


def _size(said: Mapping[str, Any]) -> tuple[int, Resize]:
    """The square that is left, and how the picture gets there."""
    size, cropped = said["size"], bool(said.get("do_center_crop", "crop_size" in said))
    if isinstance(size, Mapping) and "shortest_edge" in size:
        size = size["shortest_edge"]
    elif isinstance(size, Mapping) or not cropped:
        return _uncropped(_square(size), said if cropped else {}), "squash"
    if not cropped:
        raise PullError("a resize to the shortest edge that is not cropped to a square")
    return _uncropped(int(size), said), "shortest"


def _uncropped(size: int, said: Mapping[str, Any]) -> int:
    if "crop_size" in said and _square(said["crop_size"]) != size:
        raise PullError(f"a crop to {said['crop_size']} after a resize to {size}")
    return size


def _square(size: object) -> int:
    sides = list(size.values()) if isinstance(size, Mapping) else size
    if isinstance(sides, list | tuple):
        if len({*sides}) != 1:
            raise PullError(f"a size of {size}, which is no square")
        sides = sides[0]
    if not isinstance(sides, int):
        raise PullError(f"a size of {size!r}")
    return sides


def _three_numbers(numbers: object) -> tuple[float, float, float]:
    if not isinstance(numbers, list | tuple) or len(numbers) != 3:
        raise PullError(f"{numbers!r} where three numbers belong, one a colour")
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue


def _check_same(name: str, said: object, wanted: object) -> None:
    if said != wanted:
        raise PullError(f"{name} {said!r}")


SAMPLE_TEXTS = ("a red chair with four legs", "Zwei schwarze Stühle, 2 m hoch!", "木の椅子", "word " * 600)
OPEN_CLIP_CLEANINGS: dict[str, Cleaning] = {
    "lower": "clip",
    "canonicalize": "canonicalize",
    "whitespace": "whitespace",
}
# Of models in the layout of transformers.js: cleaning, and the context where the configuration leaves it out.
TEXT_FAMILIES: dict[str, tuple[Cleaning, int]] = {
    "clip": ("clip", 77),
    "siglip": ("canonicalize", 64),
    "siglip2": ("canonicalize", 64),
}


@dataclass(frozen=True)
class TextConfig:
    """What the configuration says of texts. `causal`: what follows the end id should change nothing."""

    family: str
    cleaning: Cleaning
    context: int
    causal: bool


def read_text_config(source: PublishedFiles, layout: TowerLayout, masked: bool) -> TextConfig:
    """What the configuration says; `masked`: whether the text graph takes an attention mask."""
    said = source.json(layout.config)
    try:
        return (
            _open_clip_text(said["text_cfg"], masked) if layout.kind == "immich" else _transformers_text(said)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise PullError(f"{layout.config} cannot be understood: {error!r}") from error


def text_spec(
    source: PublishedFiles, layout: TowerLayout, said: TextConfig, length: Literal["dynamic", "fixed"]
) -> TextSpec:
    """How to read, checked against the published tokenizer."""
    published = _load_tokenizer(source.text(layout.tokenizer))
    start, end = _frame_ids(published)
    pad = _pad_id(published, source.json(layout.tokenizer_config))
    try:
        spec = TextSpec(said.cleaning, said.context, start, end, pad, length)
        ours = Tokenizer(source.text(layout.tokenizer), spec)
    except TextError as error:
        raise PullError(f"{layout.tokenizer} cannot be used: {error}") from error
    _compare_tokens(published, ours)
    return spec


def _open_clip_text(said: dict[str, Any], masked: bool) -> TextConfig:
    context = int(said.get("context_length", 77))
    model = str(said.get("hf_model_name", ""))
    if "nllb" in model:
        raise PullError("NLLB towers want the language of each text before it, which a bundle cannot say")
    if (
        masked
    ):  # M-CLIP's own text tower, which reads texts as they are; the configuration is the image tower's
        return TextConfig("m-clip", "none", context, causal=False)
    by_hand = "hf_tokenizer_name" not in said
    settings = dict(said.get("tokenizer_kwargs") or {})
    how = settings.pop("clean", "lower" if by_hand else "whitespace")
    if how not in OPEN_CLIP_CLEANINGS or settings:
        raise PullError(
            f"texts are read with clean = {how!r} and {settings}; we know {', '.join(OPEN_CLIP_CLEANINGS)}"
        )
    causal = by_hand and not said.get("no_causal_mask", False)
    return TextConfig("open_clip", OPEN_CLIP_CLEANINGS[how], context, causal)


def _transformers_text(said: dict[str, Any]) -> TextConfig:
    family = said["model_type"]
    if family not in TEXT_FAMILIES:
        raise PullError(f"the model is a {family!r}; we know how {', '.join(TEXT_FAMILIES)} read texts")
    cleaning, context = TEXT_FAMILIES[family]
    context = int((said.get("text_config") or {}).get("max_position_embeddings", context))
    return TextConfig(family, cleaning, context, causal=family == "clip")


def _load_tokenizer(definition: str) -> tokenizers.Tokenizer:
    try:
        found = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises bare exceptions
        raise PullError(f"tokenizer.json is damaged: {error}") from error
    if (found.padding or {}).get("direction") == "left" or (found.truncation or {}).get(
        "direction"
    ) == "left":
        raise PullError("the tokenizer pads or cuts texts on their left, which a bundle cannot say")
    found.no_padding()
    found.no_truncation()
    return found


def _frame_ids(published: tokenizers.Tokenizer) -> tuple[int | None, int]:
    """The ids that stand before and after every text."""
    bare = published.encode("a", add_special_tokens=False).ids
    framed = published.encode("a").ids
    before = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
    start, end = framed[:before], framed[before + len(bare) :]
    if len(start) > 1 or len(end) != 1:
        raise PullError(
            f"the tokenizer frames a text with {start} and {end}; we know at most one id before and one after"
        )
    return (start[0] if start else None), end[0]


def _pad_id(published: tokenizers.Tokenizer, said: dict[str, Any]) -> int:
    if said.get("padding_side", "right") != "right":
        raise PullError("the tokenizer pads texts on their left, which a bundle cannot say")
    token = said.get("pad_token")
    name = token.get("content") if isinstance(token, dict) else token
    found = published.token_to_id(name) if isinstance(name, str) else None
    if found is None:
        raise PullError(f"the tokenizer names no pad token among its tokens, but {name!r}")
    return found


def _compare_tokens(
    published: tokenizers.Tokenizer, ours: Tokenizer, texts: Sequence[str] = SAMPLE_TEXTS
) -> None:
    """Ours frames and cuts as the published one does, after the same cleaning."""
    spec = ours.spec
    published.enable_truncation(spec.context)
    published.enable_padding(length=spec.context, pad_id=spec.pad)
    for text, row in zip(texts, ours(texts).ids, strict=True):
        theirs = published.encode(clean(text, spec.cleaning)).ids
        found = row.tolist() + [spec.pad] * (spec.context - len(row))
        if found != theirs:
            raise PullError(f"the tokenizer reads {text[:40]!r} as {theirs[:12]} …, we as {found[:12]} …")
