"""The preprocessing of published encoders, from their own configuration: pictures and texts.

A step that cannot be done exactly is refused. The ids that frame a text come from the published tokenizer,
and our tokens are compared with its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import tokenizers

from app.pull.published_files import PublishedFiles, PullError, TowerLayout
from multifold.bundle.preprocess import ImageError, ImageSpec
from multifold.bundle.tokenizer import Cleaning, TextError, TextSpec, Tokenizer, clean

Resize = Literal["shortest", "squash"]
Interpolation = Literal["bicubic", "bilinear"]

PILLOW_FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}
BYTE = 1 / 255
KNOWN_STEPS = {"do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb"}


def image_spec(source: PublishedFiles, layout: TowerLayout) -> ImageSpec:
    config = source.json(layout.image_config)
    try:
        return _open_clip_image(config) if layout.kind == "immich" else _transformers_image(config)
    except (KeyError, TypeError, ValueError) as error:
        raise PullError(f"{layout.image_config} cannot be understood: {error!r}") from error
    except (ImageError, PullError) as error:
        raise PullError(f"{layout.image_config} asks for what we cannot do exactly: {error}") from error


def _open_clip_image(config: Mapping[str, Any]) -> ImageSpec:
    _check_same("mode", config.get("mode", "RGB"), "RGB")
    resize: Resize = "squash" if config.get("resize_mode") == "squash" else "shortest"
    _check_same("resize_mode", config.get("resize_mode", "shortest"), resize)
    mean, std = _three_numbers(config["mean"]), _three_numbers(config["std"])
    return ImageSpec(_square(config["size"]), resize, config["interpolation"], mean, std)


def _transformers_image(config: Mapping[str, Any]) -> ImageSpec:
    for step in ("do_resize", "do_rescale"):  # which we always do
        _check_same(step, config.get(step, True), True)
    for step in sorted(config):
        if step.startswith("do_") and step not in KNOWN_STEPS and config[step]:
            raise PullError(f"the step {step}")
    if abs(config.get("rescale_factor", BYTE) - BYTE) > 1e-9:
        raise PullError(f"rescale_factor {config['rescale_factor']}, not 1/255")
    size, resize = _size(config)
    if config["resample"] not in PILLOW_FILTERS:
        raise PullError(f"resample {config['resample']}; there are {PILLOW_FILTERS}")
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if config.get("do_normalize", True):
        mean, std = _three_numbers(config["image_mean"]), _three_numbers(config["image_std"])
    return ImageSpec(size, resize, PILLOW_FILTERS[config["resample"]], mean, std)


def _size(config: Mapping[str, Any]) -> tuple[int, Resize]:
    """The side of the square that is left, and how a picture becomes that square."""
    size, cropped = config["size"], bool(config.get("do_center_crop", "crop_size" in config))
    resize: Resize = "shortest"
    if isinstance(size, Mapping) and "shortest_edge" in size:
        size = size["shortest_edge"]
    elif isinstance(size, Mapping) or not cropped:
        size, resize = _square(size), "squash"
    if resize == "shortest" and not cropped:
        raise PullError("a resize to the shortest edge that is not cropped to a square")
    if cropped and "crop_size" in config and _square(config["crop_size"]) != int(size):
        raise PullError(f"a crop to {config['crop_size']} after a resize to {size}")
    return int(size), resize


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


def _check_same(name: str, value: object, wanted: object) -> None:
    if value != wanted:
        raise PullError(f"{name} {value!r}")


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
    """Text preprocessing of a configuration. `causal`: what follows the end id should change nothing."""

    family: str
    cleaning: Cleaning
    context: int
    causal: bool


def read_text_config(source: PublishedFiles, layout: TowerLayout, masked: bool) -> TextConfig:
    """The text preprocessing that the configuration states; `masked`: the text graph takes a mask."""
    config = source.json(layout.config)
    try:
        if layout.kind == "immich":
            return _open_clip_text(config["text_cfg"], masked)
        return _transformers_text(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise PullError(f"{layout.config} cannot be understood: {error!r}") from error


def text_spec(
    source: PublishedFiles, layout: TowerLayout, config: TextConfig, length: Literal["dynamic", "fixed"]
) -> TextSpec:
    """The text preprocessing, compared with the published tokenizer."""
    published = _load_tokenizer(source.text(layout.tokenizer))
    start, end = _frame_ids(published)
    pad = _pad_id(published, source.json(layout.tokenizer_config))
    try:
        spec = TextSpec(config.cleaning, config.context, start, end, pad, length)
        ours = Tokenizer(source.text(layout.tokenizer), spec)
    except TextError as error:
        raise PullError(f"{layout.tokenizer} cannot be used: {error}") from error
    _compare_tokens(published, ours)
    return spec


def _open_clip_text(config: dict[str, Any], masked: bool) -> TextConfig:
    context = int(config.get("context_length", 77))
    if "nllb" in str(config.get("hf_model_name", "")):
        raise PullError("NLLB towers want the language of each text before it, which a bundle cannot say")
    if masked:  # M-CLIP's own text tower reads texts as they are; the configuration is the image tower's
        return TextConfig("m-clip", "none", context, causal=False)
    plain = "hf_tokenizer_name" not in config
    settings = dict(config.get("tokenizer_kwargs") or {})
    cleaning = settings.pop("clean", "lower" if plain else "whitespace")
    if cleaning not in OPEN_CLIP_CLEANINGS or settings:
        known = ", ".join(OPEN_CLIP_CLEANINGS)
        raise PullError(f"texts are read with clean = {cleaning!r} and {settings}; we know {known}")
    causal = plain and not config.get("no_causal_mask", False)
    return TextConfig("open_clip", OPEN_CLIP_CLEANINGS[cleaning], context, causal)


def _transformers_text(config: dict[str, Any]) -> TextConfig:
    family = config["model_type"]
    if family not in TEXT_FAMILIES:
        raise PullError(f"the model is a {family!r}; we know how {', '.join(TEXT_FAMILIES)} read texts")
    cleaning, context = TEXT_FAMILIES[family]
    context = int((config.get("text_config") or {}).get("max_position_embeddings", context))
    return TextConfig(family, cleaning, context, causal=family == "clip")


def _load_tokenizer(definition: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises bare exceptions
        raise PullError(f"tokenizer.json is damaged: {error}") from error
    settings = (tokenizer.padding or {}, tokenizer.truncation or {})
    if any(one.get("direction") == "left" for one in settings):
        raise PullError("the tokenizer pads or cuts texts on their left, which a bundle cannot say")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _frame_ids(published: tokenizers.Tokenizer) -> tuple[int | None, int]:
    bare = published.encode("a", add_special_tokens=False).ids
    framed = published.encode("a").ids
    before = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
    start, end = framed[:before], framed[before + len(bare) :]
    if len(start) > 1 or len(end) != 1:
        frame = f"the tokenizer frames a text with {start} and {end}"
        raise PullError(f"{frame}; we know at most one id before and one after")
    return (start[0] if start else None), end[0]


def _pad_id(published: tokenizers.Tokenizer, config: dict[str, Any]) -> int:
    if config.get("padding_side", "right") != "right":
        raise PullError("the tokenizer pads texts on their left, which a bundle cannot say")
    token = config.get("pad_token")
    name = token.get("content") if isinstance(token, dict) else token
    pad = published.token_to_id(name) if isinstance(name, str) else None
    if pad is None:
        raise PullError(f"the tokenizer names no pad token among its tokens, but {name!r}")
    return pad


def _compare_tokens(published: tokenizers.Tokenizer, ours: Tokenizer) -> None:
    """Refuse a tokenizer that does not frame and cut as the published one does, after the same cleaning."""
    spec = ours.spec
    published.enable_truncation(spec.context)
    published.enable_padding(length=spec.context, pad_id=spec.pad)
    for text, row in zip(SAMPLE_TEXTS, ours(SAMPLE_TEXTS).ids, strict=True):
        theirs = published.encode(clean(text, spec.cleaning)).ids
        ids = row.tolist() + [spec.pad] * (spec.context - len(row))
        if ids != theirs:
            raise PullError(f"the tokenizer reads {text[:40]!r} as {theirs[:12]} …, we as {ids[:12]} …")
