"""3MF files: a zip archive of model files, whose objects and components stand where the build has them.

Sizes are checked before anything is unpacked or placed.
"""

import io
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64

from renderers.contracts import Matrix, MeshError, MeshLimits, MeshMaterial, MeshPart, Points
from renderers.images.color import linear_rgba
from renderers.images.textures import TextureDecoder, TextureError
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, check_indices
from renderers.mesh.formats.transform import transform_points
from renderers.mesh.formats.xml import Attributes, parse_xml, walk_xml

_WHITE = MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
_BARE = MeshMaterial()
_USUAL_ROOT = "3D/3dmodel.model"
_RELATIONS = "_rels/.rels"
_DEEPEST = 50  # components within components
_MOST_ENTRIES = 10_000
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError)
if TYPE_CHECKING:
    Floats: TypeAlias = array[float]
    Wholes: TypeAlias = array[int]
else:  # Python 3.11 knows no array of something
    Floats = Wholes = array
ThreeMfKey: TypeAlias = tuple[str, str]  # the path of a model file, the id of an object in it
NO_PROPERTY = -1
_METRES = {
    "micron": 1e-6,
    "millimeter": 1e-3,
    "centimeter": 1e-2,
    "inch": 0.0254,
    "foot": 0.3048,
    "meter": 1.0,
}
_COLUMNS = 7  # of a triangle: three corners, three properties, the number of their group


@dataclass
class ThreeMfPackage:
    """Reads entries by name; nothing is ever written to disk."""

    data: bytes
    limits: MeshLimits
    _archive: zipfile.ZipFile = field(init=False)
    _read: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(self.data))
        except _BROKEN as error:
            raise MeshError("the 3mf file is cut short or damaged. Export it anew.") from error
        self.limits.check("entries", len(self._archive.infolist()), _MOST_ENTRIES)

    def __contains__(self, name: Any) -> bool:  # noqa: ANN401 (what `in` is asked for)
        return name.lstrip("/") in self._archive.NameToInfo

    def read(self, name: str) -> bytes:
        """The bytes of one entry."""
        name = name.lstrip("/")
        if name not in self._archive.NameToInfo:
            raise MeshError(f"the 3mf file is damaged: it holds no {name[:80]!r}. Export it anew.")
        if name not in self._read:
            self._read[name] = self._unpack(self._archive.NameToInfo[name])
        return self._read[name]

    def _unpack(self, info: zipfile.ZipInfo) -> bytes:
        size = sum(map(len, self._read.values())) + info.file_size
        self.limits.check("bytes once unpacked", size, self.limits.unpacked_bytes)
        try:
            with self._archive.open(info) as entry:
                return entry.read()
        except _BROKEN as error:
            raise MeshError("the 3mf file is damaged, or locked by a password. Export it anew.") from error


@dataclass(frozen=True, eq=False)
class ThreeMfPlacement:
    """An object and where it stands."""

    key: ThreeMfKey
    matrix: Matrix


@dataclass(eq=False)
class ThreeMfObject:
    """A mesh, or other objects put together."""

    group: str | None  # of properties, for triangles that name none
    index: int
    components: list[ThreeMfPlacement] = field(default_factory=list)
    corners: Floats = field(default_factory=lambda: array("d"))
    columns: Wholes = field(default_factory=lambda: array("q"))

    @property
    def face_count(self) -> int:
        return len(self.columns) // _COLUMNS

    @property
    def vertices(self) -> Points:
        return np.frombuffer(self.corners, np.float64).reshape(-1, 3)

    @property
    def triangles(self) -> Int64[np.ndarray, "f 7"]:
        """Corners (3), properties (3), group (1)."""
        return np.frombuffer(self.columns, np.int64).reshape(-1, _COLUMNS)


@dataclass(eq=False)
class ThreeMfModelFile:
    """What one model file holds, by id."""

    metres: float | None = None  # of one unit, if it is one that 3MF knows
    objects: dict[ThreeMfKey, ThreeMfObject] = field(default_factory=dict)
    build: list[ThreeMfPlacement] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)  # the ids behind the group numbers of triangles
    colors: dict[str, list[str]] = field(default_factory=dict)
    coordinates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    texture_of: dict[str, str] = field(default_factory=dict)  # group of coordinates -> texture
    pictures: dict[str, str] = field(default_factory=dict)  # texture -> path in the package

    def group_number(self, group: str | None) -> int:
        if group is None:
            return NO_PROPERTY
        if group not in self.groups:
            self.groups.append(group)
        return self.groups.index(group)


class _ModelReader:
    """Takes the elements of a model file one by one; unknown ones are passed over."""

    def __init__(self, path: str, limits: MeshLimits) -> None:
        self.path = path
        self.limits = limits
        self.model = ThreeMfModelFile()
        self.object = ThreeMfObject(None, 0)
        self.shades: list[str] = []
        self.places: list[tuple[float, float]] = []
        self.handlers: dict[str, Callable[[Attributes], None]] = {
            "model": self._model,
            "object": self._object,
            "vertex": self._vertex,
            "triangle": self._triangle,
            "component": lambda named: self.object.components.append(self._place(named)),
            "item": self._item,
            "basematerials": self._color_group,
            "base": lambda named: self.shades.append(named["displaycolor"]),
            "colorgroup": self._color_group,
            "color": lambda named: self.shades.append(named["color"]),
            "texture2dgroup": self._texture_group,
            "tex2coord": lambda named: self.places.append((float(named["u"]), float(named["v"]))),
            "texture2d": lambda named: self.model.pictures.update({named["id"]: named["path"]}),
        }

    def start(self, name: str, attributes: Attributes) -> None:
        if name in self.handlers:
            self.handlers[name](attributes)

    def _model(self, named: Attributes) -> None:
        self.model.metres = _METRES.get(named.get("unit", "millimeter"))

    def _object(self, named: Attributes) -> None:
        self.object = ThreeMfObject(named.get("pid"), int(named.get("pindex", 0)))
        self.model.objects[self.path, named["id"]] = self.object

    def _vertex(self, named: Attributes) -> None:
        self.object.corners.extend((float(named["x"]), float(named["y"]), float(named["z"])))
        self.limits.check("vertices", len(self.object.corners) // 3, self.limits.vertices)

    def _triangle(self, named: Attributes) -> None:
        group = named.get("pid", self.object.group)
        first = int(named.get("p1", self.object.index))
        properties = first, int(named.get("p2", first)), int(named.get("p3", first))
        corners = int(named["v1"]), int(named["v2"]), int(named["v3"])
        self.object.columns.extend((*corners, *properties, self.model.group_number(group)))
        self.limits.check("faces", self.object.face_count, self.limits.faces)

    def _item(self, named: Attributes) -> None:
        self.model.build.append(self._place(named))
        self.limits.check("instances", len(self.model.build), self.limits.instances)

    def _place(self, named: Attributes) -> ThreeMfPlacement:
        path = next((value for name, value in named.items() if name.endswith("}path")), self.path)
        return ThreeMfPlacement((path.lstrip("/"), named["objectid"]), _matrix(named.get("transform")))

    def _color_group(self, named: Attributes) -> None:
        self.shades = self.model.colors.setdefault(named["id"], [])

    def _texture_group(self, named: Attributes) -> None:
        self.places = self.model.coordinates.setdefault(named["id"], [])
        self.model.texture_of[named["id"]] = named["texid"]


def _matrix(text: str | None) -> Matrix:
    """3MF writes the matrix of row vectors, four rows of three."""
    matrix = np.eye(4)
    if text is not None:
        numbers = [float(word) for word in text.split()]
        if len(numbers) != 12:
            raise MeshError("the 3mf file is damaged: a transform in it does not have 12 numbers.")
        matrix[:3] = np.array(numbers).reshape(4, 3).T
    return matrix


@dataclass
class ThreeMfMaterials:
    """Gives objects their colours; `decoder` notes which pictures could not be used."""

    package: ThreeMfPackage
    decoder: TextureDecoder
    _materials: dict[str, MeshMaterial] = field(default_factory=dict)

    def parts(self, model: ThreeMfModelFile, item: ThreeMfObject, matrix: Matrix) -> Iterator[MeshPart]:
        """The object's triangles, those of one group of properties together."""
        vertices = transform_points(item.vertices, matrix)
        triangles = item.triangles
        check_indices(triangles[:, :3], len(vertices))
        for number in np.unique(triangles[:, 6]):
            chosen: Bool[np.ndarray, " f"] = triangles[:, 6] == number
            faces = triangles[chosen, :3]
            properties = triangles[chosen, 3:6].ravel()
            corners = vertices[faces.ravel()]  # vertices of their own, since properties belong to corners
            group = "" if number == NO_PROPERTY else model.groups[number]
            if group in model.colors:
                hexes = (color.strip().lstrip("#")[:6] for color in model.colors[group])
                # alpha is left out, since slicers mean nothing by it
                pixels = np.array([list(bytes.fromhex(color)) for color in hexes], np.uint8).reshape(-1, 3)
                yield MeshPart.unshared(corners, _WHITE, colors=_take(linear_rgba(pixels), properties))
            elif group in model.coordinates:
                uv = np.array(model.coordinates[group], np.float32).reshape(-1, 2) * (1, -1) + (0, 1)
                material = self._material(model.pictures.get(model.texture_of[group], ""))
                yield MeshPart.unshared(corners, material, uv=_take(uv.astype(np.float32), properties))
            else:
                yield MeshPart(vertices, faces, _BARE)

    def _material(self, path: str) -> MeshMaterial:
        def encoded() -> bytes:
            try:
                return self.package.read(path)
            except MeshError as error:
                raise TextureError(str(error)) from error

        if path not in self._materials:
            texture = self.decoder.color_texture(path, encoded)
            named = MeshMaterial(base=_WHITE.base, base_texture=texture)
            self._materials[path] = _BARE if texture is None else named
        return self._materials[path]


def _take(values: Float32[np.ndarray, "k c"], indices: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n c"]:
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(values):
        raise MeshError("the 3mf file is damaged: a face names a colour that does not exist.")
    return np.asarray(values[indices])


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001 (readers are called alike)
    """The parts of a 3MF file; its siblings are none of its business."""
    package = ThreeMfPackage(data, limits)
    file = _File(package, limits, ThreeMfMaterials(package, TextureDecoder(limits)))
    root = file.model(_root(package))
    places = root.build or [ThreeMfPlacement(key, np.eye(4)) for key in root.objects]
    file.count(places)
    parts = [part for place in places for part in file.parts(place, np.eye(4))]
    return MeshContents(parts, file.materials.decoder.notes, metres=root.metres)


def _root(package: ThreeMfPackage) -> str:
    """The path of the model file that holds the build."""
    if _RELATIONS in package:
        for relation in parse_xml(package.read(_RELATIONS)).all("Relationship"):
            if relation.attributes.get("Type", "").endswith("3dmodel"):
                return relation.attributes.get("Target", _USUAL_ROOT)
    return _USUAL_ROOT


@dataclass
class _File:
    package: ThreeMfPackage
    limits: MeshLimits
    materials: ThreeMfMaterials
    _models: dict[str, ThreeMfModelFile] = field(default_factory=dict)
    _sizes: dict[ThreeMfKey, tuple[int, int]] = field(default_factory=dict)  # faces, instances

    def model(self, path: str) -> ThreeMfModelFile:
        """One of the model files in the package."""
        path = path.lstrip("/")
        if path not in self._models:
            reader = _ModelReader(path, self.limits)
            walk_xml(self.package.read(path), reader.start)
            self._models[path] = reader.model
        return self._models[path]

    def count(self, places: list[ThreeMfPlacement]) -> None:
        """Refuse a build with too much in it, before any of it is placed."""
        sizes = [self._size(place.key, 0) for place in places]
        self.limits.check("instances", sum(instances for _, instances in sizes), self.limits.instances)
        self.limits.check("faces", sum(faces for faces, _ in sizes), self.limits.faces)

    def parts(self, place: ThreeMfPlacement, above: Matrix) -> Iterator[MeshPart]:
        """An object and its components in the world."""
        model = self.model(place.key[0])
        matrix = above @ place.matrix
        item = model.objects[place.key]
        yield from self.materials.parts(model, item, matrix)
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
            faces = item.face_count + sum(faces for faces, _ in inside)
            self._sizes[key] = faces, 1 + sum(instances for _, instances in inside)
        return self._sizes[key]
