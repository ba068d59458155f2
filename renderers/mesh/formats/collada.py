"""COLLADA (.dae) files: the visual scene with its transforms, instances and materials, as parts.

Polygons are cut into triangles, whose corners are vertices of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from renderers.contracts import (
    Axis,
    Colors,
    Matrix,
    MeshError,
    MeshLimits,
    MeshMaterial,
    MeshPart,
    Normals,
    Points,
    TextureCoordinates,
)
from renderers.images.color import linear_rgba
from renderers.images.textures import TextureDecoder
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, check_indices, read_uri
from renderers.mesh.formats.transform import placement_matrix, rotate_vectors, transform_points
from renderers.mesh.formats.xml import XmlElement, parse_xml

_SHADERS = ("phong", "blinn", "lambert", "constant")
_POLYGONS = ("triangles", "polylist", "polygons", "tristrips", "trifans")
_HOPS = 4  # from a texture to its sampler, surface and picture
_DEEPEST = 100  # nodes within nodes
_X_UP_TO_Y_UP = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float64)
Values = Float64[np.ndarray, "k c"]
Corners = Int64[np.ndarray, "k w"]  # rows of numbers, what each says is in the inputs of their group


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001 (readers are called alike)
    """The parts of a COLLADA file."""
    root = parse_xml(data)
    if root.name != "COLLADA":
        raise MeshError("this is not a COLLADA file, although its name says so.")
    stated = root.child("asset", "up_axis")
    up = "Y_UP" if stated is None else stated.text.strip()
    by_id = {one.attributes["id"]: one for one in root.descendants() if "id" in one.attributes}
    file = _File(root, limits, by_id, ColladaMaterials(by_id, siblings, TextureDecoder(limits)))
    parts = list(file.parts(_X_UP_TO_Y_UP if up == "X_UP" else np.eye(4)))
    axis: Axis = "z" if up == "Z_UP" else "y"
    animations = root.child("library_animations")
    return MeshContents(
        parts,
        file.materials.decoder.notes,
        axis,
        metres=_unit_length(root),
        animated=animations is not None and bool(animations.children),
    )


def _unit_length(root: XmlElement) -> float | None:
    """The metres of one unit, if it is a length; a file that says nothing is in metres."""
    unit = root.child("asset", "unit")
    try:
        metres = 1.0 if unit is None else float(unit.attributes.get("meter", 1.0))
    except ValueError:
        return None
    return metres if 0 < metres < np.inf else None


@dataclass(frozen=True, eq=False)
class ColladaSurface:
    """The triangles of one material, three vertices each."""

    symbol: str | None  # of the material
    vertices: Points
    normals: Normals | None
    uv: TextureCoordinates | None
    colors: Colors | None


@dataclass(eq=False)
class ColladaMaterials:
    """Reads materials, each once; `decoder` notes which pictures could not be used."""

    by_id: Mapping[str, XmlElement]
    siblings: SiblingFiles
    decoder: TextureDecoder
    _materials: dict[int, MeshMaterial] = field(default_factory=dict)

    def material(self, element: XmlElement) -> MeshMaterial:
        """The material of an element of the library."""
        if id(element) not in self._materials:
            self._materials[id(element)] = self._read(element)
        return self._materials[id(element)]

    def _read(self, element: XmlElement) -> MeshMaterial:
        named = element.child("instance_effect")
        effect = self.by_id.get("" if named is None else named.attributes.get("url", "").removeprefix("#"))
        profile = None if effect is None else effect.child("profile_COMMON")
        technique = None if profile is None else profile.child("technique")
        shader = None if technique is None else next(iter(technique.all(*_SHADERS)), None)
        if profile is None or shader is None:
            return MeshMaterial()
        unlit = shader.name == "constant"
        shade = shader.child("emission" if unlit else "diffuse")
        picture = None if shade is None else shade.child("texture")
        path = None if picture is None else self._path(profile, picture.attributes.get("texture", ""))
        texture = None
        if path is not None:
            texture = self.decoder.color_texture(
                path, lambda: read_uri(path.removeprefix("file://"), self.siblings)
            )
        if texture is not None:
            return MeshMaterial(base=(1.0, 1.0, 1.0, 1.0), base_texture=texture, unlit=unlit)
        color = None if shade is None else shade.child("color")
        if color is None:
            return MeshMaterial(unlit=unlit)
        red, green, blue, alpha = _linear(np.array(color.text.split()[:3], np.float64)[None])[0].tolist()
        return MeshMaterial(base=(red, green, blue, alpha), unlit=unlit)

    def _path(self, profile: XmlElement, name: str) -> str:
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
        return "" if init is None else init.text or getattr(init.child("ref"), "text", "")


@dataclass(eq=False)
class _File:
    root: XmlElement
    limits: MeshLimits
    by_id: Mapping[str, XmlElement]
    materials: ColladaMaterials
    surfaces_of: dict[str, list[ColladaSurface]] = field(default_factory=dict)
    instances: int = 0
    faces: int = 0

    def parts(self, matrix: Matrix) -> Iterator[MeshPart]:
        """Everything that the scene shows; the first visual scene where none is named."""
        named = self.root.child("scene", "instance_visual_scene")
        default = self.root.child("library_visual_scenes", "visual_scene")
        scene = default if named is None else self.named(named)
        for node in [] if scene is None else scene.all("node"):
            yield from self._node(node, matrix, 0)

    def named(self, reference: XmlElement, attribute: str = "url") -> XmlElement:
        """The element that a reference names."""
        name = reference.attributes.get(attribute, "").removeprefix("#")
        if name not in self.by_id:
            raise MeshError(f"the dae file is damaged: it names {name[:60]!r}, which it does not hold.")
        return self.by_id[name]

    def _node(self, node: XmlElement, above: Matrix, depth: int) -> Iterator[MeshPart]:
        self.instances += 1
        self.limits.check("instances", self.instances, self.limits.instances)
        if depth > _DEEPEST:
            raise MeshError("the file is damaged: a node of its scene hangs in a loop, or far too deep.")
        matrix = above
        for step in node.all("matrix", "translate", "rotate", "scale"):
            matrix = matrix @ _step_matrix(step)
        for instance in node.all("instance_geometry"):
            yield from self._geometry(self.named(instance), instance, matrix)
        for instance in node.all("instance_controller"):
            yield from self._controller(self.named(instance), instance, matrix)
        for child in [*node.all("node"), *map(self.named, node.all("instance_node"))]:
            yield from self._node(child, matrix, depth + 1)

    def _controller(self, controller: XmlElement, instance: XmlElement, matrix: Matrix) -> Iterator[MeshPart]:
        """A skinned or morphed mesh, at rest."""
        for skin in controller.all("skin", "morph"):
            bound = skin.child("bind_shape_matrix")
            placed = matrix if bound is None else matrix @ _numbers(bound.text, 16).reshape(4, 4)
            source = self.named(skin, "source")
            if source.name == "geometry":
                yield from self._geometry(source, instance, placed)

    def _geometry(self, geometry: XmlElement, instance: XmlElement, matrix: Matrix) -> Iterator[MeshPart]:
        name = geometry.attributes["id"]
        if name not in self.surfaces_of:
            groups = [(mesh, group) for mesh in geometry.all("mesh") for group in mesh.all(*_POLYGONS)]
            declared = sum(int(group.attributes.get("count", 0)) for _, group in groups)
            self.limits.check("faces", self.faces + declared, self.limits.faces)
            filled = (pair for pair in groups if any(one.text for one in pair[1].all("p")))
            self.surfaces_of[name] = [_surface(mesh, group) for mesh, group in filled]
        materials = (one for one in instance.descendants() if one.name == "instance_material")
        bindings = {one.attributes.get("symbol"): one for one in materials}
        for surface in self.surfaces_of[name]:
            self.faces += len(surface.vertices) // 3
            self.limits.check("faces", self.faces, self.limits.faces)
            bound = bindings.get(surface.symbol)
            material = None if bound is None else self.materials.material(self.named(bound, "target"))
            yield _part(surface, material, matrix)


def _part(surface: ColladaSurface, material: MeshMaterial | None, matrix: Matrix) -> MeshPart:
    if material is None:
        material = MeshMaterial() if surface.colors is None else MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
    normals = surface.normals
    if normals is not None:
        normals = rotate_vectors(normals, np.linalg.pinv(matrix[:3, :3]).T.astype(np.float32))
    corners = transform_points(surface.vertices, matrix)
    return MeshPart.unshared(corners, material, normals, surface.uv, surface.colors)


def _step_matrix(step: XmlElement) -> Matrix:
    origin, rest, whole = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0)
    if step.name == "matrix":
        return _numbers(step.text, 16).reshape(4, 4)
    if step.name == "translate":
        return placement_matrix(_numbers(step.text, 3), rest, whole)
    if step.name == "scale":
        return placement_matrix(origin, rest, _numbers(step.text, 3))
    x, y, z, degrees = _numbers(step.text, 4)
    axis = np.array([x, y, z])
    half = np.radians(degrees) / 2
    turn = np.append(axis / max(float(np.linalg.norm(axis)), 1e-30) * np.sin(half), np.cos(half))
    return placement_matrix(origin, turn, whole)


def _numbers(text: str, count: int) -> Float64[np.ndarray, " k"]:
    numbers = np.array(text.split(), np.float64)
    if len(numbers) != count:
        raise MeshError(f"the dae file is damaged: {len(numbers)} numbers stand where {count} belong.")
    return numbers


def _surface(mesh: XmlElement, group: XmlElement) -> ColladaSurface:
    """The triangles of one group of polygons."""
    sources = {one.attributes.get("id"): one for one in mesh.all("source")}
    inputs = list(_inputs(mesh, group))
    width = 1 + max(offset for _, offset, _ in inputs)
    runs = [rows[_triangles(group.name, rows, sizes)] for rows, sizes in _runs(group, width)]
    corners = np.concatenate(runs)
    values: dict[str, Values] = {}
    for semantic, offset, source in inputs:
        if semantic not in values and source in sources:
            rows = _values(sources[source])
            check_indices(corners[:, offset], len(rows))
            values[semantic] = rows[corners[:, offset]]
    if "POSITION" not in values:
        raise MeshError("the dae file is damaged: some of its polygons have no positions.")
    normals, uv, colors = (values.get(name) for name in ("NORMAL", "TEXCOORD", "COLOR"))
    return ColladaSurface(
        symbol=group.attributes.get("material"),
        vertices=values["POSITION"][:, :3],
        normals=None if normals is None else normals[:, :3].astype(np.float32),
        uv=None if uv is None else (uv[:, :2] * (1, -1) + (0, 1)).astype(np.float32),
        colors=None if colors is None else _linear(colors),
    )


def _inputs(mesh: XmlElement, group: XmlElement) -> Iterator[tuple[str, int, str]]:
    """(meaning, column, source) of each number of a corner; VERTEX stands for what all vertices have."""
    shared = [one for vertices in mesh.all("vertices") for one in vertices.all("input")]
    for one in group.all("input"):
        offset = int(one.attributes.get("offset", 0))
        if offset < 0 or offset > 100:
            raise MeshError("the dae file is damaged: a corner of its polygons has too many numbers.")
        for source in shared if one.attributes["semantic"] == "VERTEX" else [one]:
            yield source.attributes["semantic"], offset, source.attributes["source"].removeprefix("#")


def _runs(group: XmlElement, width: int) -> Iterator[tuple[Corners, Int64[np.ndarray, " p"]]]:
    """The corners of each <p>, a row each, and how many belong to each polygon."""
    counts = group.child("vcount")
    for p in group.all("p"):
        indices = np.array(p.text.split(), np.int64)
        rows = indices[: len(indices) // width * width].reshape(-1, width)
        if group.name == "triangles":
            sizes = np.full(len(rows) // 3, 3)
        elif group.name == "polylist" and counts is not None:
            sizes = np.array(counts.text.split(), np.int64)
        else:
            sizes = np.array([len(rows)])
        if (sizes < 0).any() or sizes.sum() > len(rows):
            raise MeshError("the dae file is damaged: it has more polygons than corners.")
        yield rows, sizes


def _triangles(kind: str, rows: Corners, sizes: Int64[np.ndarray, " p"]) -> Int64[np.ndarray, " n"]:
    """The rows of the triangles' corners, one after another."""
    if kind == "tristrips":
        nth = np.arange(max(len(rows) - 2, 0))
        odd = nth % 2
        return np.stack([nth, nth + 1 + odd, nth + 2 - odd], axis=1).ravel()
    pieces = np.maximum(sizes - 2, 0)
    begin = np.repeat(np.cumsum(sizes) - sizes, pieces)
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.stack([begin, begin + nth + 1, begin + nth + 2], axis=1).ravel()


def _values(source: XmlElement) -> Values:
    """The numbers of a source, a row for each element."""
    numbers, accessor = source.child("float_array"), source.child("technique_common", "accessor")
    if numbers is None or accessor is None:
        raise MeshError("the dae file is damaged: a list of numbers in it is missing.")
    stride, offset = int(accessor.attributes.get("stride", 1)), int(accessor.attributes.get("offset", 0))
    if not 1 <= stride <= 16 or offset < 0:
        raise MeshError("the dae file is damaged: a list of numbers in it has a senseless form.")
    flat = np.array(numbers.text.split(), np.float64)[offset:]
    return flat[: len(flat) // stride * stride].reshape(-1, stride)


def _linear(colors: Values) -> Colors:
    """sRGB numbers in [0, 1] as linear light; a missing alpha is 1."""
    shares = np.clip(np.nan_to_num(colors[:, :3]), 0, 1)
    light = linear_rgba(np.rint(shares * 255).astype(np.uint8))
    light[:, 3:] = colors[:, 3:4] if colors.shape[1] > 3 else 1
    return light
