"""The materials of a glTF file, as far as they are drawn."""

from dataclasses import dataclass, field
from typing import Any

from renderers.files.accessors import Buffers, entry
from renderers.files.gltf_textures import Role, Textures, number, numbers, uv_set_of
from renderers.model import AlphaMode, Material, Texture

_ALPHA_MODES: dict[str, AlphaMode] = {"OPAQUE": "OPAQUE", "MASK": "MASK", "BLEND": "BLEND"}
_ROLES: dict[str, Role] = {
    "base": "albedo",
    "metal_rough": "data",
    "normal": "normal",
    "occlusion": "occlusion",
    "emissive": "glow",
}


@dataclass
class Materials:
    """Reads materials on demand."""

    tree: dict[str, Any]
    buffers: Buffers
    pictures: Textures = field(init=False)
    _read: dict[int, Material] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pictures = Textures(self.tree, self.buffers)

    @property
    def notes(self) -> list[str]:
        """What could not be used."""
        return self.pictures.notes

    def read(self, index: Any) -> Material:  # noqa: ANN401 (any JSON value)
        """The material of this number."""
        described = entry(self.tree, "materials", index)
        if index not in self._read:
            self._read[index] = self._material(described)
        return self._read[index]

    def uv_sets(self, index: Any) -> tuple[int, int | None]:  # noqa: ANN401 (any JSON value)
        """The numbers of its first and its second TEXCOORD; the first is the normal map's, if it has one."""
        return _uv_sets(entry(self.tree, "materials", index))

    def _material(self, described: dict[str, Any]) -> Material:
        pbr, gloss = described.get("pbrMetallicRoughness", {}), _specular_glossiness(described)
        extensions = described.get("extensions", {})
        strength = extensions.get("KHR_materials_emissive_strength", {}).get("emissiveStrength", 1.0)
        base = gloss.get("diffuseFactor", pbr.get("baseColorFactor", (1, 1, 1, 1)))
        shininess = number(gloss.get("glossinessFactor", 1.0))
        return Material(
            base=numbers(base, 4),
            metallic=0.0 if gloss else number(pbr.get("metallicFactor", 1.0)),
            roughness=1 - shininess if gloss else number(pbr.get("roughnessFactor", 1.0)),
            emissive=numbers([strength * part for part in described.get("emissiveFactor", (0, 0, 0))], 3),
            alpha_mode=_ALPHA_MODES[described.get("alphaMode", "OPAQUE")],
            alpha_cutoff=number(described.get("alphaCutoff", 0.5)),
            unlit="KHR_materials_unlit" in extensions,
            **self._textures(described),
        )

    def _textures(self, described: dict[str, Any]) -> dict[str, Texture | None]:
        first, second = _uv_sets(described)
        found: dict[str, Texture | None] = {}
        for name, reference in _references(described).items():
            uv_set = first if reference is None else uv_set_of(reference)
            if uv_set not in (first, second):
                self.notes.append(f"a texture is looked up by TEXCOORD_{first} instead of TEXCOORD_{uv_set}")
            found[f"{name}_texture"] = self.pictures.read(reference, _ROLES[name], int(uv_set == second))
        return found


def _references(described: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Where the material names its textures."""
    pbr, gloss = described.get("pbrMetallicRoughness", {}), _specular_glossiness(described)
    return {
        "base": gloss.get("diffuseTexture", pbr.get("baseColorTexture")),
        "metal_rough": None if gloss else pbr.get("metallicRoughnessTexture"),
        "normal": described.get("normalTexture"),
        "occlusion": described.get("occlusionTexture"),
        "emissive": described.get("emissiveTexture"),
    }


def _uv_sets(described: dict[str, Any]) -> tuple[int, int | None]:
    found = _references(described)
    ordered = dict.fromkeys(uv_set_of(one) for one in (found["normal"], *found.values()) if one)
    first, second, *_ = (*ordered, None, None)
    return first or 0, second


def _specular_glossiness(described: dict[str, Any]) -> dict[str, Any]:
    gloss: dict[str, Any] = described.get("extensions", {}).get("KHR_materials_pbrSpecularGlossiness", {})
    return gloss
