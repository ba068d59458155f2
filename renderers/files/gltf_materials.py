"""The materials of a glTF file, their textures decoded once and shared."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8

from renderers.errors import MeshError
from renderers.files.accessors import Buffers, entry, uri_bytes
from renderers.files.siblings import MissingFileError
from renderers.model import AlphaMode, Material, Texture, Wrap
from renderers.textures import PictureError, color_texture, data_texture, decode, pyramid

Role: TypeAlias = Literal["albedo", "glow", "data"]
_WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_ALPHA_MODES: dict[str, AlphaMode] = {"OPAQUE": "OPAQUE", "MASK": "MASK", "BLEND": "BLEND"}


@dataclass
class Materials:
    """Reads materials on demand; `notes` says which textures could not be used."""

    tree: dict[str, Any]
    buffers: Buffers
    notes: list[str] = field(default_factory=list)
    _pixels: dict[int, UInt8[np.ndarray, "h w 4"] | None] = field(default_factory=dict)
    _textures: dict[tuple[int, Role], Texture] = field(default_factory=dict)
    _read: dict[int, Material] = field(default_factory=dict)
    _decoded_pixels: int = 0

    def read(self, index: Any) -> Material:  # noqa: ANN401 (any JSON value)
        """The material of this number."""
        described = entry(self.tree, "materials", index)
        if index not in self._read:
            self._read[index] = self._material(described)
        return self._read[index]

    def uv_set(self, index: Any) -> int:  # noqa: ANN401 (any JSON value)
        """Which TEXCOORD the material's colour is looked up by; its other textures follow it."""
        named = _base_reference(entry(self.tree, "materials", index)) or {}
        moved = named.get("extensions", {}).get("KHR_texture_transform", {})
        return int(moved.get("texCoord", named.get("texCoord", 0)))

    def _material(self, described: dict[str, Any]) -> Material:
        pbr, gloss = described.get("pbrMetallicRoughness", {}), _specular_glossiness(described)
        extensions = described.get("extensions", {})
        strength = extensions.get("KHR_materials_emissive_strength", {}).get("emissiveStrength", 1.0)
        base = gloss.get("diffuseFactor", pbr.get("baseColorFactor", (1, 1, 1, 1)))
        return Material(
            base=_numbers(base, 4),
            metallic=0.0 if gloss else _number(pbr.get("metallicFactor", 1.0)),
            roughness=1 - _number(gloss.get("glossinessFactor", 1.0))
            if gloss
            else _number(pbr.get("roughnessFactor", 1.0)),
            emissive=_numbers([strength * part for part in described.get("emissiveFactor", (0, 0, 0))], 3),
            alpha_mode=_ALPHA_MODES[described.get("alphaMode", "OPAQUE")],
            alpha_cutoff=_number(described.get("alphaCutoff", 0.5)),
            unlit="KHR_materials_unlit" in extensions,
            base_texture=self._texture(_base_reference(described), "albedo"),
            metal_rough_texture=None if gloss else self._texture(pbr.get("metallicRoughnessTexture"), "data"),
            normal_texture=self._texture(described.get("normalTexture"), "data"),
            occlusion_texture=self._texture(described.get("occlusionTexture"), "data"),
            emissive_texture=self._texture(described.get("emissiveTexture"), "glow"),
        )

    def _texture(self, reference: dict[str, Any] | None, role: Role) -> Texture | None:
        if reference is None:
            return None
        described = entry(self.tree, "textures", reference.get("index"))
        webp = described.get("extensions", {}).get("EXT_texture_webp", {})
        image = webp.get("source", described.get("source"))
        pixels = None if image is None else self._image(image)
        if pixels is None:
            return None
        wrap, moved = self._wrap(described), reference.get("extensions", {}).get("KHR_texture_transform")
        if (image, role) not in self._textures:
            self._textures[image, role] = pyramid(_values(pixels, role))
        return replace(
            self._textures[image, role], wrap=wrap, transform=None if moved is None else _transform(moved)
        )

    def _image(self, index: Any) -> UInt8[np.ndarray, "h w 4"] | None:  # noqa: ANN401 (any JSON value)
        """The pixels of one picture, or None and a note if it is missing or broken."""
        described = entry(self.tree, "images", index)
        if index not in self._pixels:
            try:
                self._pixels[index] = self._decode(described)
            except (PictureError, MissingFileError) as error:
                self._pixels[index] = None
                self.notes.append(f"drawn without the texture {described.get('uri', index)!s:.60}: {error}")
        return self._pixels[index]

    def _decode(self, described: dict[str, Any]) -> UInt8[np.ndarray, "h w 4"]:
        if "bufferView" in described:
            data = bytes(self.buffers.view(described["bufferView"]))
        else:
            data = uri_bytes(str(described["uri"]), self.buffers.siblings)
        pixels = decode(data, self.buffers.limits)
        self._decoded_pixels += pixels.shape[0] * pixels.shape[1]
        self.buffers.limits.check("texture pixels", self._decoded_pixels, self.buffers.limits.image_pixels)
        return pixels

    def _wrap(self, described: dict[str, Any]) -> tuple[Wrap, Wrap]:
        if "sampler" not in described:
            return "repeat", "repeat"
        sampler = entry(self.tree, "samplers", described["sampler"])
        return _WRAPS[sampler.get("wrapS", 10497)], _WRAPS[sampler.get("wrapT", 10497)]


def _base_reference(described: dict[str, Any]) -> dict[str, Any] | None:
    pbr, gloss = described.get("pbrMetallicRoughness", {}), _specular_glossiness(described)
    reference: dict[str, Any] | None = gloss.get("diffuseTexture", pbr.get("baseColorTexture"))
    return reference


def _specular_glossiness(described: dict[str, Any]) -> dict[str, Any]:
    gloss: dict[str, Any] = described.get("extensions", {}).get("KHR_materials_pbrSpecularGlossiness", {})
    return gloss


def _values(pixels: UInt8[np.ndarray, "h w 4"], role: Role) -> Float32[np.ndarray, "h w c"]:
    return data_texture(pixels) if role == "data" else color_texture(pixels, alpha=role == "albedo")


def _transform(moved: dict[str, Any]) -> Float32[np.ndarray, "2 3"]:
    """KHR_texture_transform: translation after rotation after scale."""
    angle, (x, y) = _number(moved.get("rotation", 0.0)), _numbers(moved.get("offset", (0, 0)), 2)
    width, height = _numbers(moved.get("scale", (1, 1)), 2)
    sine, cosine = math.sin(angle), math.cos(angle)
    return np.array([[cosine * width, sine * height, x], [-sine * width, cosine * height, y]], np.float32)


def _number(value: Any) -> float:  # noqa: ANN401 (any JSON value)
    number = float(value)
    if not math.isfinite(number):
        raise MeshError("the file is damaged: a number of a material is not finite.")
    return number


def _numbers(values: Any, count: int) -> Any:  # noqa: ANN401 (a tuple of `count` floats)
    numbers = tuple(_number(value) for value in values)
    if len(numbers) != count:
        raise MeshError(f"the file is damaged: a material has {len(numbers)} numbers where {count} belong.")
    return numbers
