"""3MF files: objects and components where the build has them, with their colours and textures."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from renderers.contracts import MeshError, MeshLimits, MeshMaterial, MeshPart, Texture
from renderers.images.color import to_linear
from renderers.images.textures import TextureError, color_texture, decode_picture, mip_pyramid
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles
from renderers.mesh.formats.threemf_package import (
    NO_PROPERTY,
    ThreeMfKey,
    ThreeMfModelFile,
    ThreeMfObject,
    ThreeMfPackage,
    ThreeMfPlacement,
    read_model,
)
from renderers.mesh.formats.transform import transform_points
from renderers.mesh.formats.xml import parse_xml

_WHITE = MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
_BARE = MeshMaterial()


@dataclass
class ThreeMfMaterials:
    """Dresses objects; each picture is decoded once, and `notes` says which could not be used."""

    package: ThreeMfPackage
    limits: MeshLimits
    notes: list[str] = field(default_factory=list)
    _dressed: dict[str, MeshMaterial] = field(default_factory=dict)
    _pixels: int = 0

    def parts(
        self, model: ThreeMfModelFile, item: ThreeMfObject, matrix: Float64[np.ndarray, "4 4"]
    ) -> Iterator[MeshPart]:
        """The object's triangles, those of one group of properties together."""
        vertices, triangles = transform_points(item.vertices, matrix), item.triangles
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
                yield MeshPart(vertices, faces, _BARE)

    def _material(self, model: ThreeMfModelFile, group: str) -> MeshMaterial:
        path = model.pictures.get(model.texture_of[group], "")
        if path not in self._dressed:
            try:
                self._dressed[path] = MeshMaterial(base=_WHITE.base, base_texture=self._texture(path))
            except (TextureError, MeshError) as error:
                self._dressed[path] = _BARE
                self.notes.append(f"drawn without the texture {path[:60]!r}: {error}")
        return self._dressed[path]

    def _texture(self, path: str) -> Texture:
        pixels = decode_picture(self.package.read(path), self.limits)
        self._pixels += pixels.shape[0] * pixels.shape[1]
        self.limits.check("texture pixels", self._pixels, self.limits.image_pixels)
        return mip_pyramid(color_texture(pixels))


def _unshared(
    vertices: Float64[np.ndarray, "n 3"],
    faces: Int64[np.ndarray, "f 3"],
    material: MeshMaterial,
    uv: Float32[np.ndarray, "c 2"] | None = None,
    colors: Float32[np.ndarray, "c 4"] | None = None,
) -> MeshPart:
    """A part whose corners are vertices of their own, since properties belong to corners."""
    corners = vertices[faces.ravel()]
    return MeshPart(corners, np.arange(len(corners)).reshape(-1, 3), material, uv=uv, colors=colors)


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


_USUAL_ROOT = "3D/3dmodel.model"
_RELATIONS = "_rels/.rels"
_ROOT_KIND = "3dmodel"
_DEEPEST = 50  # components within components


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001 (readers are called alike)
    """The parts of a 3MF file; its siblings are none of its business."""
    package = ThreeMfPackage(data, limits)
    file = _File(package, limits)
    root = file.model(_root(package))
    places = root.build or [ThreeMfPlacement(key, np.eye(4)) for key in root.objects]
    file.count(places)
    parts = [part for place in places for part in file.parts(place, np.eye(4))]
    return MeshContents(parts, file.looks.notes)


def _root(package: ThreeMfPackage) -> str:
    if _RELATIONS in package:
        for relation in parse_xml(package.read(_RELATIONS)).all("Relationship"):
            if relation.attributes.get("Type", "").endswith(_ROOT_KIND):
                return relation.attributes.get("Target", _USUAL_ROOT)
    return _USUAL_ROOT


@dataclass
class _File:
    package: ThreeMfPackage
    limits: MeshLimits
    looks: ThreeMfMaterials = field(init=False)
    _models: dict[str, ThreeMfModelFile] = field(default_factory=dict)
    _sizes: dict[ThreeMfKey, tuple[int, int]] = field(default_factory=dict)  # faces, instances

    def __post_init__(self) -> None:
        self.looks = ThreeMfMaterials(self.package, self.limits)

    def model(self, path: str) -> ThreeMfModelFile:
        """One of the model files in the package."""
        path = path.lstrip("/")
        if path not in self._models:
            self._models[path] = read_model(path, self.package.read(path), self.limits)
        return self._models[path]

    def count(self, places: list[ThreeMfPlacement]) -> None:
        """Refuse a build with too much in it, before any of it is placed."""
        sizes = [self._size(place.key, 0) for place in places]
        self.limits.check("instances", sum(instances for _, instances in sizes), self.limits.instances)
        self.limits.check("faces", sum(faces for faces, _ in sizes), self.limits.faces)

    def parts(self, place: ThreeMfPlacement, above: Float64[np.ndarray, "4 4"]) -> Iterator[MeshPart]:
        """An object and its components in the world."""
        model, matrix = self.model(place.key[0]), above @ place.matrix
        item = model.objects[place.key]
        yield from self.looks.parts(model, item, matrix)
        for component in item.components:
            yield from self.parts(component, matrix)

    def _size(self, key: ThreeMfKey, depth: int) -> tuple[int, int]:
        if depth > _DEEPEST:
            raise MeshError(
                "the 3mf file is damaged: an object contains itself, or too many others in a row."
            )
        if key not in self._sizes:
            objects = self.model(key[0]).objects
            if key not in objects:
                raise MeshError(f"the 3mf file is damaged: it has no object {key[1][:40]!r}.")
            item = objects[key]
            inside = [self._size(one.key, depth + 1) for one in item.components]
            faces, instances = (
                item.face_count + sum(one for one, _ in inside),
                1 + sum(one for _, one in inside),
            )
            self._sizes[key] = faces, instances
        return self._sizes[key]
