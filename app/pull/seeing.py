"""How an encoder was taught to see, from its own configuration: exactly, or refused with what differs."""

from collections.abc import Mapping
from typing import Any, Literal

from app.pull.layouts import Layout
from app.pull.source import PullError, Source
from multifold.preprocess import ImageError, ImageSpec

Resize = Literal["shortest", "squash"]
Interpolation = Literal["bicubic", "bilinear"]

PILLOW: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}
BYTE = 1 / 255
EXPECTED = {"do_resize": True, "do_rescale": True}  # steps that we take always
STEPS = {"do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb"}


def image_spec(source: Source, layout: Layout) -> ImageSpec:
    """The image preprocessing of published towers."""
    said = source.json(layout.seeing)
    try:
        return _open_clip(said) if layout.kind == "immich" else _transformers(said)
    except (KeyError, TypeError, ValueError) as error:
        raise PullError(f"{layout.seeing} cannot be understood: {error!r}") from error
    except (ImageError, PullError) as error:
        raise PullError(f"{layout.seeing} asks for what we cannot do exactly: {error}") from error


def _open_clip(said: Mapping[str, Any]) -> ImageSpec:
    _same("mode", said.get("mode", "RGB"), "RGB")
    resize: Resize = "squash" if said.get("resize_mode") == "squash" else "shortest"
    _same("resize_mode", said.get("resize_mode", "shortest"), resize)
    size, mean, std = _square(said["size"]), _three(said["mean"]), _three(said["std"])
    return ImageSpec(size, resize, said["interpolation"], mean, std)


def _transformers(said: Mapping[str, Any]) -> ImageSpec:
    for step, wanted in EXPECTED.items():
        _same(step, said.get(step, True), wanted)
    for step in sorted(said):
        if step.startswith("do_") and step not in STEPS and said[step]:
            raise PullError(f"the step {step}")
    if abs(said.get("rescale_factor", BYTE) - BYTE) > 1e-9:
        raise PullError(f"rescale_factor {said['rescale_factor']}, not 1/255")
    size, resize = _size(said)
    if said["resample"] not in PILLOW:
        raise PullError(f"resample {said['resample']}; there are {PILLOW}")
    normalised = said.get("do_normalize", True)
    mean = _three(said["image_mean"]) if normalised else (0.0, 0.0, 0.0)
    std = _three(said["image_std"]) if normalised else (1.0, 1.0, 1.0)
    return ImageSpec(size, resize, PILLOW[said["resample"]], mean, std)


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


def _three(numbers: object) -> tuple[float, float, float]:
    if not isinstance(numbers, list | tuple) or len(numbers) != 3:
        raise PullError(f"{numbers!r} where three numbers belong, one a colour")
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue


def _same(name: str, said: object, wanted: object) -> None:
    if said != wanted:
        raise PullError(f"{name} {said!r}")
