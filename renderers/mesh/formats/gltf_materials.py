"""The materials of a glTF file and their textures, each picture decoded once."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float32

from renderers.contracts import AlphaMode, MeshError, MeshMaterial, RgbaPixels, Texture, TextureWrap
from renderers.images.textures import TextureDecoder, color_texture, data_texture, mip_pyramid
from renderers.mesh.formats.gltf_buffers import GltfBuffers, tree_entry
from renderers.mesh.formats.mesh_file import read_uri

TextureRole: TypeAlias = Literal["albedo", "glow", "data", "normal", "occlusion"]
_WRAPS: dict[int, TextureWrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_NEAREST = 9728
_SOURCES = ("KHR_texture_basisu", "EXT_texture_webp")
_STRENGTHS: dict[TextureRole, str] = {"normal": "scale", "occlusion": "strength"}
_ALPHA_MODES: dict[str, AlphaMode] = {mode: mode for mode in get_args(AlphaMode)}
_ROLES: dict[str, TextureRole] = {
    "base": "albedo",
    "metal_rough": "data",
    "normal": "normal",
    "occlusion": "occlusion",
    "emissive": "glow",
}


def uv_set_of(reference: dict[str, Any]) -> int:
    """The number of the TEXCOORD that a texture is looked up by."""
    moved = reference.get("extensions", {}).get("KHR_texture_transform", {})
    return int(moved.get("texCoord", reference.get("texCoord", 0)))


def finite_number(value: Any) -> float:  # noqa: ANN401 (any JSON value)
    """A JSON value that must be a finite number."""
    number = float(value)
    if not math.isfinite(number):
        raise MeshError("the file is damaged: a number of a material is not finite.")
    return number


def finite_numbers(values: Any, count: int) -> Any:  # noqa: ANN401 (a tuple of `count` floats)
    """A JSON list that must be so many finite numbers."""
    numbers = tuple(finite_number(value) for value in values)
    if len(numbers) != count:
        raise MeshError(f"the file is damaged: a material has {len(numbers)} numbers where {count} belong.")
    return numbers


@dataclass
class GltfMaterials:
    """Reads materials and their textures on demand; `decoder` notes which pictures could not be used."""

    tree: dict[str, Any]
    buffers: GltfBuffers
    decoder: TextureDecoder = field(init=False)
    _read: dict[int, MeshMaterial] = field(default_factory=dict)
    _pyramids: dict[tuple[int, TextureRole, float], Texture] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decoder = TextureDecoder(self.buffers.limits)

    def read(self, index: Any) -> MeshMaterial:  # noqa: ANN401 (any JSON value)
        """The material of this number."""
        described = tree_entry(self.tree, "materials", index)
        if index not in self._read:
            self._read[index] = self._material(described)
        return self._read[index]

    def uv_sets(self, index: Any) -> tuple[int, int | None]:  # noqa: ANN401 (any JSON value)
        """The numbers of its first and its second TEXCOORD; the first is the normal map's, if it has one."""
        return _uv_sets(tree_entry(self.tree, "materials", index))

    def _material(self, described: dict[str, Any]) -> MeshMaterial:
        pbr = described.get("pbrMetallicRoughness", {})
        gloss = _specular_glossiness(described)
        extensions = described.get("extensions", {})
        strength = extensions.get("KHR_materials_emissive_strength", {}).get("emissiveStrength", 1.0)
        base = gloss.get("diffuseFactor", pbr.get("baseColorFactor", (1, 1, 1, 1)))
        shininess = finite_number(gloss.get("glossinessFactor", 1.0))
        emissive = [strength * part for part in described.get("emissiveFactor", (0, 0, 0))]
        return MeshMaterial(
            base=finite_numbers(base, 4),
            metallic=0.0 if gloss else finite_number(pbr.get("metallicFactor", 1.0)),
            roughness=1 - shininess if gloss else finite_number(pbr.get("roughnessFactor", 1.0)),
            emissive=finite_numbers(emissive, 3),
            alpha_mode=_ALPHA_MODES[described.get("alphaMode", "OPAQUE")],
            alpha_cutoff=finite_number(described.get("alphaCutoff", 0.5)),
            unlit="KHR_materials_unlit" in extensions,
            **self._textures(described),
        )

    def _textures(self, described: dict[str, Any]) -> dict[str, Texture | None]:
        first, second = _uv_sets(described)
        textures: dict[str, Texture | None] = {}
        for name, reference in _references(described).items():
            uv_set = uv_set_of(reference)
            if uv_set not in (first, second):
                note = f"a texture is looked up by TEXCOORD_{first} instead of TEXCOORD_{uv_set}"
                self.decoder.notes.append(note)
            textures[f"{name}_texture"] = self._texture(reference, _ROLES[name], int(uv_set == second))
        return textures

    def _texture(self, reference: dict[str, Any], role: TextureRole, uv_set: int) -> Texture | None:
        """What a material refers to, or None if that is no picture or a missing one."""
        described = tree_entry(self.tree, "textures", reference.get("index"))
        extensions = described.get("extensions", {})
        alternatives = (extensions[name].get("source") for name in _SOURCES if name in extensions)
        image: Any = next(alternatives, described.get("source"))
        pixels = None if image is None else self._image(image)
        if pixels is None:
            return None
        strength = finite_number(reference.get(_STRENGTHS.get(role, ""), 1.0))
        if (image, role, strength) not in self._pyramids:
            self._pyramids[image, role, strength] = mip_pyramid(_values(pixels, role, strength))
        moved = reference.get("extensions", {}).get("KHR_texture_transform")
        sampler = tree_entry(self.tree, "samplers", described["sampler"]) if "sampler" in described else {}
        return replace(
            self._pyramids[image, role, strength],
            wrap=(_WRAPS[sampler.get("wrapS", 10497)], _WRAPS[sampler.get("wrapT", 10497)]),
            magnify="nearest" if sampler.get("magFilter") == _NEAREST else "linear",
            transform=None if moved is None else _transform(moved),
            uv_set=uv_set,
        )

    def _image(self, index: Any) -> RgbaPixels | None:  # noqa: ANN401 (any JSON value)
        described = tree_entry(self.tree, "images", index)

        def encoded() -> bytes:
            if "bufferView" in described:
                return bytes(self.buffers.view(described["bufferView"]))
            return read_uri(str(described["uri"]), self.buffers.siblings)

        named = str(described.get("name") or described.get("uri", index))
        return self.decoder.decode(index, named, encoded, ktx2=True)


def _values(pixels: RgbaPixels, role: TextureRole, strength: float) -> Float32[np.ndarray, "h w c"]:
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
    angle = finite_number(moved.get("rotation", 0.0))
    x, y = finite_numbers(moved.get("offset", (0, 0)), 2)
    width, height = finite_numbers(moved.get("scale", (1, 1)), 2)
    sine, cosine = math.sin(angle), math.cos(angle)
    return np.array([[cosine * width, sine * height, x], [-sine * width, cosine * height, y]], np.float32)


def _references(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Where the material names its textures."""
    pbr = described.get("pbrMetallicRoughness", {})
    gloss = _specular_glossiness(described)
    named = {
        "base": gloss.get("diffuseTexture", pbr.get("baseColorTexture")),
        "metal_rough": None if gloss else pbr.get("metallicRoughnessTexture"),
        "normal": described.get("normalTexture"),
        "occlusion": described.get("occlusionTexture"),
        "emissive": described.get("emissiveTexture"),
    }
    return {name: reference for name, reference in named.items() if reference is not None}


def _uv_sets(described: dict[str, Any]) -> tuple[int, int | None]:
    references = _references(described)
    ordered = sorted(references, key=lambda name: name != "normal")
    first, second, *_ = (*dict.fromkeys(uv_set_of(references[name]) for name in ordered), None, None)
    return first or 0, second


def _specular_glossiness(described: dict[str, Any]) -> dict[str, Any]:
    gloss: dict[str, Any] = described.get("extensions", {}).get("KHR_materials_pbrSpecularGlossiness", {})
    return gloss
