"""The textures of a glTF file: pictures decoded once, and shared by all that look them up alike."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8

from renderers.errors import MeshError
from renderers.files import ktx2
from renderers.files.accessors import Buffers, entry, uri_bytes
from renderers.files.siblings import MissingFileError
from renderers.model import Texture, Wrap
from renderers.textures import PictureError, color_texture, data_texture, decode, pyramid

Role: TypeAlias = Literal["albedo", "glow", "data", "normal", "occlusion"]
_WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_NEAREST = 9728
_SOURCES = ("KHR_texture_basisu", "EXT_texture_webp")
_STRENGTHS: dict[Role, str] = {"normal": "scale", "occlusion": "strength"}


@dataclass
class Textures:
    """Reads textures on demand; `notes` says which could not be used."""

    tree: dict[str, Any]
    buffers: Buffers
    notes: list[str] = field(default_factory=list)
    _pixels: dict[int, UInt8[np.ndarray, "h w 4"] | None] = field(default_factory=dict)
    _pyramids: dict[tuple[int, Role, float], Texture] = field(default_factory=dict)
    _decoded_pixels: int = 0

    def read(self, reference: dict[str, Any] | None, role: Role, uv_set: int) -> Texture | None:
        """What a material refers to, or None if it names no texture or a missing one."""
        if reference is None:
            return None
        described = entry(self.tree, "textures", reference.get("index"))
        image = _source(described)
        pixels = None if image is None else self._image(image)
        if image is None or pixels is None:
            return None
        strength = number(reference.get(_STRENGTHS.get(role, ""), 1.0))
        if (image, role, strength) not in self._pyramids:
            self._pyramids[image, role, strength] = pyramid(_values(pixels, role, strength))
        moved = reference.get("extensions", {}).get("KHR_texture_transform")
        sampler = entry(self.tree, "samplers", described["sampler"]) if "sampler" in described else {}
        return replace(
            self._pyramids[image, role, strength],
            wrap=(_WRAPS[sampler.get("wrapS", 10497)], _WRAPS[sampler.get("wrapT", 10497)]),
            magnify="nearest" if sampler.get("magFilter") == _NEAREST else "linear",
            transform=None if moved is None else _transform(moved),
            uv_set=uv_set,
        )

    def _image(self, index: Any) -> UInt8[np.ndarray, "h w 4"] | None:  # noqa: ANN401 (any JSON value)
        """The pixels of one picture, or None and a note if it is missing or broken."""
        described = entry(self.tree, "images", index)
        if index not in self._pixels:
            try:
                self._pixels[index] = self._decode(described)
            except (PictureError, MissingFileError) as error:
                self._pixels[index] = None
                named = str(described.get("name") or described.get("uri", index))
                self.notes.append(f"drawn without the texture {named:.60}: {error}")
        return self._pixels[index]

    def _decode(self, described: dict[str, Any]) -> UInt8[np.ndarray, "h w 4"]:
        if "bufferView" in described:
            data = bytes(self.buffers.view(described["bufferView"]))
        else:
            data = uri_bytes(str(described["uri"]), self.buffers.siblings)
        limits = self.buffers.limits
        pixels = ktx2.decode(data, limits) if data.startswith(ktx2.MAGIC) else decode(data, limits)
        self._decoded_pixels += pixels.shape[0] * pixels.shape[1]
        limits.check("texture pixels", self._decoded_pixels, limits.image_pixels)
        return pixels


def uv_set_of(reference: dict[str, Any]) -> int:
    """The number of the TEXCOORD that a texture is looked up by."""
    moved = reference.get("extensions", {}).get("KHR_texture_transform", {})
    return int(moved.get("texCoord", reference.get("texCoord", 0)))


def number(value: Any) -> float:  # noqa: ANN401 (any JSON value)
    """A JSON value that must be a finite number."""
    found = float(value)
    if not math.isfinite(found):
        raise MeshError("the file is damaged: a number of a material is not finite.")
    return found


def numbers(values: Any, count: int) -> Any:  # noqa: ANN401 (a tuple of `count` floats)
    """A JSON list that must be so many finite numbers."""
    found = tuple(number(value) for value in values)
    if len(found) != count:
        raise MeshError(f"the file is damaged: a material has {len(found)} numbers where {count} belong.")
    return found


def _source(described: dict[str, Any]) -> int | None:
    extensions = described.get("extensions", {})
    better = (extensions[name].get("source") for name in _SOURCES if name in extensions)
    source: int | None = next(better, described.get("source"))
    return source


def _values(pixels: UInt8[np.ndarray, "h w 4"], role: Role, strength: float) -> Float32[np.ndarray, "h w c"]:
    if role in ("albedo", "glow"):
        return color_texture(pixels, alpha=role == "albedo")
    values = data_texture(pixels)
    if role == "normal" and strength != 1:
        values[..., :2] = (values[..., :2] - np.float32(0.5)) * np.float32(strength) + np.float32(0.5)
    if role == "occlusion" and strength != 1:
        values = 1 + (values - 1) * np.float32(strength)
    return values


def _transform(moved: dict[str, Any]) -> Float32[np.ndarray, "2 3"]:
    """KHR_texture_transform: translation after rotation after scale."""
    angle, (x, y) = number(moved.get("rotation", 0.0)), numbers(moved.get("offset", (0, 0)), 2)
    width, height = numbers(moved.get("scale", (1, 1)), 2)
    sine, cosine = math.sin(angle), math.cos(angle)
    return np.array([[cosine * width, sine * height, x], [-sine * width, cosine * height, y]], np.float32)
