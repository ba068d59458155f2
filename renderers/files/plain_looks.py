"""The colours, materials and pictures of OBJ and PLY files."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float32
from PIL import Image

from renderers.color import to_linear
from renderers.limits import Limits
from renderers.model import BARE_ALBEDO, AlphaMode, Material, Texture
from renderers.textures import FORMATS, color_texture, pyramid, shrink

_NO_COLOR = (102, 102, 102)  # what trimesh puts where a file names no colour
_CUT_OUT = 0.01  # a picture this transparent, used without a word about alpha, is a cut-out
_BROKEN_PICTURE = (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError)


def linear(colors: Any) -> Float32[np.ndarray, "n 4"]:  # noqa: ANN401 (trimesh is not typed)
    """sRGB bytes with alpha as linear light."""
    pixels = np.asarray(colors, np.uint8)
    light = to_linear(pixels)
    light[:, 3] = pixels[:, 3] / np.float32(255)
    return light


@dataclass
class Looks:
    """Reads materials, each once; `notes` says which pictures could not be used."""

    limits: Limits
    notes: list[str] = field(default_factory=list)
    _materials: dict[int, tuple[Any, Material]] = field(
        default_factory=dict
    )  # by the identity of their source
    _pixels: int = 0

    def material(self, source: Any) -> Material:  # noqa: ANN401
        """An MTL material: its diffuse colour or picture, and how far one sees through it."""
        if id(source) not in self._materials:
            self._materials[id(source)] = source, self._read(source)
        return self._materials[id(source)][1]

    def _read(self, source: Any) -> Material:  # noqa: ANN401
        picture = getattr(source, "image", getattr(source, "baseColorTexture", None))
        texture, cut_out = (None, False) if picture is None else self._texture(picture)
        opacity = _opacity(source)
        see_through: AlphaMode = "MASK" if cut_out else "BLEND"
        return Material(
            base=(*((1.0, 1.0, 1.0) if texture else _diffuse(source)), opacity),
            base_texture=texture,
            alpha_mode=see_through if cut_out or opacity < 1 else "OPAQUE",
        )

    def _texture(self, picture: Image.Image) -> tuple[Texture | None, bool]:
        """The picture, and whether it has holes."""
        self._pixels += picture.width * picture.height
        self.limits.check("pixels in its textures", self._pixels, self.limits.image_pixels)
        try:
            if picture.format not in FORMATS:
                raise ValueError(f"{picture.format} pictures are not read")
            pixels = shrink(picture, self.limits.texture_side)
        except _BROKEN_PICTURE as error:
            name = str(picture.info.get("file_path", ""))
            self.notes.append(f"drawn without the texture {name:.60}: {error!s:.100}")
            return None, False
        return pyramid(color_texture(pixels)), bool((pixels[..., 3] < 128).mean() > _CUT_OUT)


def _diffuse(source: Any) -> tuple[float, float, float]:  # noqa: ANN401
    diffuse = getattr(source, "diffuse", None)
    color = np.asarray(_NO_COLOR if diffuse is None else diffuse).astype(np.int64).clip(0, 255)[:3]
    if tuple(color) == _NO_COLOR:
        return BARE_ALBEDO, BARE_ALBEDO, BARE_ALBEDO
    red, green, blue = (float(part) for part in to_linear(color.astype(np.uint8)))
    return red, green, blue


def _opacity(source: Any) -> float:  # noqa: ANN401
    """MTL's `d`; exporters that write 0 don't mean that nothing is to be seen."""
    try:
        opacity = float(source.kwargs["d"][0])
    except (AttributeError, LookupError, TypeError, ValueError):
        return 1.0
    return opacity if 0 < opacity < 1 else 1.0
