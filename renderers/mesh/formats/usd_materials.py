"""The materials of a USD file: UsdPreviewSurface with its textures, each picture decoded once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64

from renderers.contracts import AlphaMode, MeshMaterial, RgbaPixels, Texture, TextureWrap
from renderers.images.textures import TextureDecoder, color_texture, data_texture, mip_pyramid
from renderers.mesh.formats.usd_layers import UsdFile, UsdObject

Pixels: TypeAlias = Float32[np.ndarray, "h w c"]
USUAL_UV = "st"  # the primvar of texture coordinates, where no material says otherwise
_BARE = MeshMaterial()
_SURFACE, _PICTURE = "UsdPreviewSurface", "UsdUVTexture"
_MOVED, _READER = "UsdTransform2d", "UsdPrimvarReader_float2"
_WRAPS: Mapping[str, TextureWrap] = {"clamp": "clamp", "black": "clamp", "mirror": "mirror"}  # else repeat
_CHANNELS = {"r": 0, "g": 1, "b": 2, "a": 3}
_DEEPEST = 8  # nodes between a surface and its coordinates
_FLIP = np.array([[1, 0, 0], [0, -1, 1], [0, 0, 1]], np.float64)  # USD counts upwards, we downwards


@dataclass(frozen=True, eq=False)
class UsdTexture:
    """A texture node that is connected to an input: its picture, the channel, and how it is looked up."""

    name: str
    pixels: RgbaPixels
    output: str  # rgb, r, g, b or a
    scale: tuple[float, ...]
    wrap: tuple[TextureWrap, TextureWrap]
    transform: Float32[np.ndarray, "2 3"] | None
    uv: str  # the primvar that it is looked up by

    def channel(self) -> Float32[np.ndarray, "h w"]:
        """The numbers of its one channel, or of the first."""
        number = _CHANNELS.get(self.output, 0)
        values = self.pixels[..., number] * np.float32(self.scale[number] / 255)
        return np.asarray(np.clip(values, 0, 1))

    def made_of(self, values: Pixels) -> Texture:
        """The texture of values that were made of its picture."""
        return replace(mip_pyramid(values), wrap=self.wrap, transform=self.transform)


@dataclass
class UsdMaterials:
    """Reads materials on demand; `decoder` notes which pictures could not be used."""

    file: UsdFile
    time: UsdObject
    decoder: TextureDecoder = field(init=False)
    _read: dict[str, tuple[MeshMaterial, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decoder = TextureDecoder(self.file.limits)

    def read(self, material: UsdObject) -> tuple[MeshMaterial, str]:
        """A material, and the primvar that its textures are looked up by."""
        key = str(material.GetPath())
        if key not in self._read:
            surface, _, _ = material.ComputeSurfaceSource()
            known = bool(surface) and surface.GetIdAttr().Get() == _SURFACE
            self._read[key] = self._surface(surface) if known else (_BARE, USUAL_UV)
            if not known:
                self.decoder.notes.append(f"the material {key:.60} is no {_SURFACE}; it is drawn grey")
        return self._read[key]

    def _surface(self, surface: UsdObject) -> tuple[MeshMaterial, str]:
        names = ("diffuseColor", "emissiveColor", "normal", "occlusion", "opacity", "metallic", "roughness")
        found = {name: self._texture(surface, name) for name in names}
        textures = {name: texture for name, texture in found.items() if texture is not None}
        base = textures.get("diffuseColor")
        color = base.scale[:3] if base else self._numbers(surface, "diffuseColor", (0.18, 0.18, 0.18))
        glow = textures.get("emissiveColor")
        emissive = glow.scale[:3] if glow else self._numbers(surface, "emissiveColor", (0.0, 0.0, 0.0))
        opacity = 1.0 if "opacity" in textures else self._numbers(surface, "opacity", (1.0,))[0]
        cutoff = self._numbers(surface, "opacityThreshold", (0.0,))[0]
        see_through: AlphaMode = "MASK" if cutoff > 0 else "BLEND"
        read = MeshMaterial(
            base=(color[0], color[1], color[2], opacity),
            metallic=1.0 if "metallic" in textures else self._numbers(surface, "metallic", (0.0,))[0],
            roughness=1.0 if "roughness" in textures else self._numbers(surface, "roughness", (0.5,))[0],
            emissive=(emissive[0], emissive[1], emissive[2]),
            alpha_mode=see_through if opacity < 1 or "opacity" in textures else "OPAQUE",
            alpha_cutoff=cutoff or 0.5,
            base_texture=self._base(base, textures.get("opacity")),
            metal_rough_texture=self._metal_rough(textures.get("metallic"), textures.get("roughness")),
            normal_texture=_of_data(textures.get("normal")),
            occlusion_texture=_of_channel(textures.get("occlusion")),
            emissive_texture=glow.made_of(color_texture(glow.pixels, alpha=False)) if glow else None,
        )
        coordinates = [*dict.fromkeys(texture.uv for texture in textures.values())]
        for other in coordinates[1:]:
            self.decoder.notes.append(f"a texture is looked up by {coordinates[0]} instead of {other}")
        return read, (coordinates or [USUAL_UV])[0]

    def _base(self, base: UsdTexture | None, opacity: UsdTexture | None) -> Texture | None:
        if base is None:
            if opacity is not None:
                self.decoder.notes.append(
                    f"drawn without the texture {opacity.name:.60}: it is opacity alone"
                )
            return None
        values = color_texture(base.pixels)
        values[..., 3] = 1
        if opacity is not None:
            if opacity.pixels.shape == base.pixels.shape:
                values[..., 3] = opacity.channel()
            else:
                self.decoder.notes.append(
                    f"drawn without the texture {opacity.name:.60}: it has another size"
                )
        return base.made_of(values)

    def _metal_rough(self, metallic: UsdTexture | None, roughness: UsdTexture | None) -> Texture | None:
        """Both in one picture, roughness green and metallic blue; what has none stays as its number says."""
        first = roughness or metallic
        if first is None:
            return None
        values = np.ones((*first.pixels.shape[:2], 3), np.float32)
        for texture, number in ((roughness, 1), (metallic, 2)):
            if texture is None:
                continue
            if texture.pixels.shape == first.pixels.shape:
                values[..., number] = texture.channel()
            else:
                self.decoder.notes.append(
                    f"drawn without the texture {texture.name:.60}: it has another size"
                )
        return first.made_of(values)

    def _texture(self, surface: UsdObject, name: str) -> UsdTexture | None:
        """The texture that an input is connected to; None if there is none, or it is missing or broken."""
        source = _source(surface, name)
        if source is None or source[0].GetIdAttr().Get() != _PICTURE:
            return None
        node, output = source
        asset = self._value(node, "file")
        if asset is None:
            return None
        key = asset.resolvedPath or asset.path
        pixels = self.decoder.decode(key, asset.path, lambda: self.file.read_picture(asset))
        if pixels is None:
            return None
        wraps = [_WRAPS.get(str(self._value(node, one)), "repeat") for one in ("wrapS", "wrapT")]
        scale = self._numbers(node, "scale", (1.0, 1.0, 1.0, 1.0))
        matrix, uv = self._coordinates(node)
        moved = _FLIP @ matrix @ _FLIP
        transform = None if np.allclose(moved, np.eye(3)) else moved[:2].astype(np.float32)
        return UsdTexture(asset.path, pixels, output, scale, (wraps[0], wraps[1]), transform, uv)

    def _coordinates(self, node: UsdObject) -> tuple[Float64[np.ndarray, "3 3"], str]:
        """What moves the coordinates of a texture, and the primvar that they are in."""
        matrix = np.eye(3)
        source = _source(node, "st")
        for _ in range(_DEEPEST):
            kind = None if source is None else source[0].GetIdAttr().Get()
            if source is None or kind not in (_MOVED, _READER):
                break
            if kind == _READER:
                return matrix, str(self._value(source[0], "varname") or USUAL_UV)
            matrix = matrix @ self._moved(source[0])
            source = _source(source[0], "in")
        return matrix, USUAL_UV

    def _moved(self, node: UsdObject) -> Float64[np.ndarray, "3 3"]:
        """UsdTransform2d: scale, then turn, then move."""
        angle = math.radians(self._numbers(node, "rotation", (0.0,))[0])
        x, y = self._numbers(node, "translation", (0.0, 0.0))
        width, height = self._numbers(node, "scale", (1.0, 1.0))
        sine, cosine = math.sin(angle), math.cos(angle)
        return np.array([[cosine * width, -sine * height, x], [sine * width, cosine * height, y], [0, 0, 1]])

    def _numbers(self, node: UsdObject, name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
        """The finite numbers of an input; the usual ones where it has no others."""
        value = self._value(node, name)
        numbers = tuple(map(float, value if isinstance(value, Sequence) or hasattr(value, "__len__") else ()))
        if isinstance(value, (int, float)):
            numbers = (float(value),)
        fits = len(numbers) == len(usual) and all(map(math.isfinite, numbers))
        return numbers if fits else usual

    def _value(self, node: UsdObject, name: str) -> UsdObject:
        """What an input is, wherever its value is written."""
        found = node.GetInput(name)
        attributes = found.GetValueProducingAttributes() if found else ()
        return attributes[0].Get(self.time) if attributes else None


def _source(node: UsdObject, name: str) -> tuple[UsdObject, str] | None:
    """The shader that an input is connected to, and the name of the output."""
    from pxr import UsdShade

    found = node.GetInput(name)
    for attribute in found.GetValueProducingAttributes() if found else ():
        output, kind = UsdShade.Utils.GetBaseNameAndType(attribute.GetName())
        if kind == UsdShade.AttributeType.Output:
            return UsdShade.Shader(attribute.GetPrim()), output
    return None


def _of_data(texture: UsdTexture | None) -> Texture | None:
    return None if texture is None else texture.made_of(data_texture(texture.pixels))


def _of_channel(texture: UsdTexture | None) -> Texture | None:
    if texture is None:
        return None
    return texture.made_of(np.repeat(texture.channel()[..., None], 3, axis=2))
