"""The zip archive of a 3MF file and the model files in it, sizes checked before unpacking."""

import io
import zipfile
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.formats.xml import Attributes, walk_xml

_MOST_ENTRIES = 10_000
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError)


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


if TYPE_CHECKING:
    Floats: TypeAlias = array[float]
    Wholes: TypeAlias = array[int]
else:  # Python 3.11 knows no array of something
    Floats = Wholes = array
ThreeMfKey: TypeAlias = tuple[str, str]  # the path of a model file, the id of an object in it
NO_PROPERTY = -1
_KNOWN = (
    *("object", "vertex", "triangle", "component", "item"),
    *("basematerials", "base", "colorgroup", "color", "texture2dgroup", "tex2coord", "texture2d"),
)
_COLUMNS = 7  # of a triangle: three corners, three properties, the number of their group


@dataclass(frozen=True, eq=False)
class ThreeMfPlacement:
    """An object and where it stands."""

    key: ThreeMfKey
    matrix: Float64[np.ndarray, "4 4"]


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
    def vertices(self) -> Float64[np.ndarray, "n 3"]:
        return np.frombuffer(self.corners, np.float64).reshape(-1, 3)

    @property
    def triangles(self) -> Int64[np.ndarray, "f 7"]:
        """Corners (3), properties (3), group (1)."""
        return np.frombuffer(self.columns, np.int64).reshape(-1, _COLUMNS)


@dataclass(eq=False)
class ThreeMfModelFile:
    """What one model file holds, by id."""

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


def read_model(path: str, data: bytes, limits: MeshLimits) -> ThreeMfModelFile:
    """The model file of this path."""
    reader = _Reader(path, limits)
    walk_xml(data, reader.start)
    return reader.model


class _Reader:
    """Takes the elements of a model file one by one; what it does not know it passes over."""

    def __init__(self, path: str, limits: MeshLimits) -> None:
        self.path, self.limits, self.model = path, limits, ThreeMfModelFile()
        self.object = ThreeMfObject(None, 0)
        self.shades: list[str] = []
        self.places: list[tuple[float, float]] = []
        self.known: dict[str, Callable[[Attributes], None]] = {
            name: getattr(self, f"_{name}") for name in _KNOWN
        }

    def start(self, name: str, attributes: Attributes) -> None:
        if name in self.known:
            self.known[name](attributes)

    def _object(self, named: Attributes) -> None:
        self.object = ThreeMfObject(named.get("pid"), int(named.get("pindex", 0)))
        self.model.objects[self.path, named["id"]] = self.object

    def _vertex(self, named: Attributes) -> None:
        self.object.corners.extend((float(named["x"]), float(named["y"]), float(named["z"])))
        self.limits.check("vertices", len(self.object.corners) // 3, self.limits.vertices)

    def _triangle(self, named: Attributes) -> None:
        group, first = named.get("pid", self.object.group), int(named.get("p1", self.object.index))
        properties = first, int(named.get("p2", first)), int(named.get("p3", first))
        corners = int(named["v1"]), int(named["v2"]), int(named["v3"])
        self.object.columns.extend((*corners, *properties, self.model.group_number(group)))
        self.limits.check("faces", self.object.face_count, self.limits.faces)

    def _component(self, named: Attributes) -> None:
        self.object.components.append(self._place(named))

    def _item(self, named: Attributes) -> None:
        self.model.build.append(self._place(named))
        self.limits.check("instances", len(self.model.build), self.limits.instances)

    def _place(self, named: Attributes) -> ThreeMfPlacement:
        path = next((value for name, value in named.items() if name.endswith("}path")), self.path)
        return ThreeMfPlacement((path.lstrip("/"), named["objectid"]), _matrix(named.get("transform")))

    def _basematerials(self, named: Attributes) -> None:
        self.shades = self.model.colors.setdefault(named["id"], [])

    _colorgroup = _basematerials

    def _base(self, named: Attributes) -> None:
        self.shades.append(named["displaycolor"])

    def _color(self, named: Attributes) -> None:
        self.shades.append(named["color"])

    def _texture2dgroup(self, named: Attributes) -> None:
        self.places = self.model.coordinates.setdefault(named["id"], [])
        self.model.texture_of[named["id"]] = named["texid"]

    def _tex2coord(self, named: Attributes) -> None:
        self.places.append((float(named["u"]), float(named["v"])))

    def _texture2d(self, named: Attributes) -> None:
        self.model.pictures[named["id"]] = named["path"]


def _matrix(text: str | None) -> Float64[np.ndarray, "4 4"]:
    """3MF writes the matrix of row vectors, four rows of three."""
    matrix = np.eye(4)
    if text is not None:
        numbers = [float(word) for word in text.split()]
        if len(numbers) != 12:
            raise MeshError("the 3mf file is damaged: a transform in it does not have 12 numbers.")
        matrix[:3] = np.array(numbers).reshape(4, 3).T
    return matrix
