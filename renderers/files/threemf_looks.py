"""The colours and textures of 3MF objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from renderers.color import to_linear
from renderers.errors import MeshError
from renderers.files.package import Package
from renderers.files.threemf_model import NO_PROPERTY, ModelFile, Object
from renderers.limits import Limits
from renderers.model import Material, Part, Texture
from renderers.textures import PictureError, color_texture, decode, pyramid
from renderers.transform import moved

_WHITE = Material(base=(1.0, 1.0, 1.0, 1.0))
_BARE = Material()


@dataclass
class Looks:
    """Dresses objects; each picture is decoded once, and `notes` says which could not be used."""

    package: Package
    limits: Limits
    notes: list[str] = field(default_factory=list)
    _dressed: dict[str, Material] = field(default_factory=dict)
    _pixels: int = 0

    def parts(self, model: ModelFile, item: Object, matrix: Float64[np.ndarray, "4 4"]) -> Iterator[Part]:
        """The object's triangles, those of one group of properties together."""
        vertices, triangles = moved(item.vertices, matrix), item.triangles
        if len(triangles) and not 0 <= triangles[:, :3].min() <= triangles[:, :3].max() < len(vertices):
            raise MeshError("the file is damaged: a face names a vertex that does not exist.")
        for number in np.unique(triangles[:, 6]):
            chosen: Bool[np.ndarray, " f"] = triangles[:, 6] == number
            faces, properties = triangles[chosen, :3], triangles[chosen, 3:6].ravel()
            group = "" if number == NO_PROPERTY else model.groups[number]
            if group in model.colors:
                yield _unshared(
                    vertices, faces, _WHITE, colors=_chosen(_linear(model.colors[group]), properties)
                )
            elif group in model.coordinates:
                uv = np.array(model.coordinates[group], np.float32).reshape(-1, 2) * (1, -1) + (0, 1)
                material = self._material(model, group)
                yield _unshared(vertices, faces, material, uv=_chosen(uv.astype(np.float32), properties))
            else:
                yield Part(vertices, faces, _BARE)

    def _material(self, model: ModelFile, group: str) -> Material:
        path = model.pictures.get(model.texture_of[group], "")
        if path not in self._dressed:
            try:
                self._dressed[path] = Material(base=_WHITE.base, base_texture=self._texture(path))
            except (PictureError, MeshError) as error:
                self._dressed[path] = _BARE
                self.notes.append(f"drawn without the texture {path[:60]!r}: {error}")
        return self._dressed[path]

    def _texture(self, path: str) -> Texture:
        pixels = decode(self.package.read(path), self.limits)
        self._pixels += pixels.shape[0] * pixels.shape[1]
        self.limits.check("texture pixels", self._pixels, self.limits.image_pixels)
        return pyramid(color_texture(pixels))


def _unshared(
    vertices: Float64[np.ndarray, "n 3"],
    faces: Int64[np.ndarray, "f 3"],
    material: Material,
    uv: Float32[np.ndarray, "c 2"] | None = None,
    colors: Float32[np.ndarray, "c 4"] | None = None,
) -> Part:
    """A part whose corners are vertices of their own, since properties belong to corners."""
    corners = vertices[faces.ravel()]
    return Part(corners, np.arange(len(corners)).reshape(-1, 3), material, uv=uv, colors=colors)


def _chosen(
    values: Float32[np.ndarray, "k c"], indices: Int64[np.ndarray, " n"]
) -> Float32[np.ndarray, "n c"]:
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(values):
        raise MeshError("the 3mf file is damaged: a face names a colour that does not exist.")
    chosen: Float32[np.ndarray, "n c"] = values[indices]
    return chosen


def _linear(colors: list[str]) -> Float32[np.ndarray, "k 4"]:
    """#RRGGBB or #RRGGBBAA, in sRGB, as linear light; alpha is left out, since slicers mean nothing by it."""
    pixels = np.array([list(bytes.fromhex(color.strip().lstrip("#")[:6])) for color in colors], np.uint8)
    light = np.ones((len(pixels), 4), np.float32)
    light[:, :3] = to_linear(pixels.reshape(-1, 3))
    return light
