"""The preprocessing of the pictures of published encoders, from their own configuration.

A step that cannot be done exactly is refused.
"""

from collections.abc import Mapping
from typing import Any, Literal

from app.pull.published_files import PublishedFiles, PullError, TowerLayout
from multifold.bundle.preprocess import ImageError, ImageSpec

Resize = Literal["shortest", "squash"]
Interpolation = Literal["bicubic", "bilinear"]

PILLOW_FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}
OPEN_CLIP_PROCESSORS = ("JinaCLIPImageProcessor",)  # configured as open_clip configures
BYTE = 1 / 255
KNOWN_STEPS = {"do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb"}


def image_spec(source: PublishedFiles, layout: TowerLayout) -> ImageSpec:
    config = source.json(layout.image_config)
    try:
        in_its_words = layout.kind == "immich" or config.get("image_processor_type") in OPEN_CLIP_PROCESSORS
        return _open_clip_image(config) if in_its_words else _transformers_image(config)
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
    size = config["size"]
    cropped = bool(config.get("do_center_crop", "crop_size" in config))
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
