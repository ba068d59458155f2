"""The materials of a COLLADA file: their diffuse colour (taken as sRGB) or picture, and no more."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from renderers.color import to_linear
from renderers.files.accessors import uri_bytes
from renderers.files.siblings import MissingFileError, Siblings
from renderers.files.xml import Element
from renderers.limits import Limits
from renderers.model import Material, Texture
from renderers.textures import PictureError, color_texture, decode, pyramid

_SHADERS = ("phong", "blinn", "lambert", "constant")
_HOPS = 4  # from a texture to its sampler, surface and picture


@dataclass(eq=False)
class Looks:
    """Reads materials, each once; `notes` says which pictures could not be used."""

    by_id: Mapping[str, Element]
    siblings: Siblings
    limits: Limits
    notes: list[str] = field(default_factory=list)
    _read: dict[int, Material] = field(default_factory=dict)
    _textures: dict[str, Texture | None] = field(default_factory=dict)
    _pixels: int = 0

    def material(self, element: Element) -> Material:
        """The material of an element of the library."""
        if id(element) not in self._read:
            self._read[id(element)] = self._material(element)
        return self._read[id(element)]

    def _material(self, element: Element) -> Material:
        named = element.child("instance_effect")
        effect = self.by_id.get("" if named is None else named.attributes.get("url", "").removeprefix("#"))
        profile = None if effect is None else effect.child("profile_COMMON")
        technique = None if profile is None else profile.child("technique")
        shader = None if technique is None else next(iter(technique.all(*_SHADERS)), None)
        if profile is None or shader is None:
            return Material()
        unlit = shader.name == "constant"
        shade = shader.child("emission" if unlit else "diffuse")
        picture = None if shade is None else shade.child("texture")
        texture = None if picture is None else self._texture(profile, picture.attributes.get("texture", ""))
        if texture is not None:
            return Material(base=(1.0, 1.0, 1.0, 1.0), base_texture=texture, unlit=unlit)
        color = None if shade is None else shade.child("color")
        return Material(unlit=unlit) if color is None else Material(base=_light(color.text), unlit=unlit)

    def _texture(self, profile: Element, name: str) -> Texture | None:
        path = self._path(profile, name)
        if path not in self._textures:
            self._textures[path] = self._decode(path)
        return self._textures[path]

    def _path(self, profile: Element, name: str) -> str:
        """Sampler -> surface -> picture -> the path of its file."""
        parameters = {one.attributes.get("sid"): one for one in profile.all("newparam")}
        for _ in range(_HOPS):
            if name not in parameters:
                break
            parameter = parameters[name]
            source = parameter.child("sampler2D", "source") or parameter.child("surface", "init_from")
            instance = parameter.child("sampler2D", "instance_image")
            name = source.text if source else instance.attributes.get("url", "")[1:] if instance else ""
        image = self.by_id.get(name)
        init = None if image is None else image.child("init_from")
        if init is None:
            return ""
        return init.text or getattr(init.child("ref"), "text", "")

    def _decode(self, path: str) -> Texture | None:
        try:
            pixels = decode(uri_bytes(path.removeprefix("file://"), self.siblings), self.limits)
        except (PictureError, MissingFileError) as error:
            self.notes.append(f"drawn without the texture {path[:60]!r}: {error}")
            return None
        self._pixels += pixels.shape[0] * pixels.shape[1]
        self.limits.check("texture pixels", self._pixels, self.limits.image_pixels)
        return pyramid(color_texture(pixels))


def _light(text: str) -> tuple[float, float, float, float]:
    shade = np.array(text.split()[:3], np.float64)
    red, green, blue = to_linear(np.rint(np.clip(np.nan_to_num(shade), 0, 1) * 255).astype(np.uint8))
    return float(red), float(green), float(blue), 1.0
