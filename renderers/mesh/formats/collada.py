"""COLLADA (.dae) files: the visual scene with its transforms, instances and materials, as parts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from renderers.contracts import Axis, MeshError, MeshLimits, MeshMaterial, MeshPart, Texture
from renderers.images.color import to_linear
from renderers.images.textures import TextureError, color_texture, decode_picture, mip_pyramid
from renderers.mesh.formats.collada_geometry import ColladaSurface, declared_face_count, read_surfaces
from renderers.mesh.formats.gltf_buffers import read_uri
from renderers.mesh.formats.mesh_file import MeshContents, MissingFileError, SiblingFiles
from renderers.mesh.formats.transform import placement_matrix, rotate_vectors, transform_points
from renderers.mesh.formats.xml import XmlElement, parse_xml

_SHADERS = ("phong", "blinn", "lambert", "constant")
_HOPS = 4  # from a texture to its sampler, surface and picture


@dataclass(eq=False)
class ColladaMaterials:
    """Reads materials, each once; `notes` says which pictures could not be used."""

    by_id: Mapping[str, XmlElement]
    siblings: SiblingFiles
    limits: MeshLimits
    notes: list[str] = field(default_factory=list)
    _read: dict[int, MeshMaterial] = field(default_factory=dict)
    _textures: dict[str, Texture | None] = field(default_factory=dict)
    _pixels: int = 0

    def material(self, element: XmlElement) -> MeshMaterial:
        """The material of an element of the library."""
        if id(element) not in self._read:
            self._read[id(element)] = self._material(element)
        return self._read[id(element)]

    def _material(self, element: XmlElement) -> MeshMaterial:
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
        texture = None if picture is None else self._texture(profile, picture.attributes.get("texture", ""))
        if texture is not None:
            return MeshMaterial(base=(1.0, 1.0, 1.0, 1.0), base_texture=texture, unlit=unlit)
        color = None if shade is None else shade.child("color")
        return (
            MeshMaterial(unlit=unlit) if color is None else MeshMaterial(base=_light(color.text), unlit=unlit)
        )

    def _texture(self, profile: XmlElement, name: str) -> Texture | None:
        path = self._path(profile, name)
        if path not in self._textures:
            self._textures[path] = self._decode(path)
        return self._textures[path]

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
        if init is None:
            return ""
        return init.text or getattr(init.child("ref"), "text", "")

    def _decode(self, path: str) -> Texture | None:
        try:
            pixels = decode_picture(read_uri(path.removeprefix("file://"), self.siblings), self.limits)
        except (TextureError, MissingFileError) as error:
            self.notes.append(f"drawn without the texture {path[:60]!r}: {error}")
            return None
        self._pixels += pixels.shape[0] * pixels.shape[1]
        self.limits.check("texture pixels", self._pixels, self.limits.image_pixels)
        return mip_pyramid(color_texture(pixels))


def _light(text: str) -> tuple[float, float, float, float]:
    shade = np.array(text.split()[:3], np.float64)
    red, green, blue = to_linear(np.rint(np.clip(np.nan_to_num(shade), 0, 1) * 255).astype(np.uint8))
    return float(red), float(green), float(blue), 1.0


Matrix = Float64[np.ndarray, "4 4"]
_DEEPEST = 100  # nodes within nodes
_X_UP_TO_Y_UP = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float64)


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001 (readers are called alike)
    """The parts of a COLLADA file."""
    root = parse_xml(data)
    if root.name != "COLLADA":
        raise MeshError("this is not a COLLADA file, although its name says so.")
    stated = root.child("asset", "up_axis")
    up = "Y_UP" if stated is None else stated.text.strip()
    file = _File(root, siblings, limits)
    parts = list(file.parts(_X_UP_TO_Y_UP if up == "X_UP" else np.eye(4)))
    axis: Axis = "z" if up == "Z_UP" else "y"
    return MeshContents(parts, file.looks.notes, axis)


@dataclass(eq=False)
class _File:
    root: XmlElement
    siblings: SiblingFiles
    limits: MeshLimits
    by_id: dict[str, XmlElement] = field(default_factory=dict)
    looks: ColladaMaterials = field(init=False)
    surfaces_of: dict[str, list[ColladaSurface]] = field(default_factory=dict)
    instances: int = 0
    faces: int = 0

    def __post_init__(self) -> None:
        self.by_id = {one.attributes["id"]: one for one in _descendants(self.root) if "id" in one.attributes}
        self.looks = ColladaMaterials(self.by_id, self.siblings, self.limits)

    def parts(self, matrix: Matrix) -> Iterator[MeshPart]:
        """Everything that the scene shows; the first visual scene where none is named."""
        named = self.root.child("scene", "instance_visual_scene")
        scene = (
            self.root.child("library_visual_scenes", "visual_scene") if named is None else self.named(named)
        )
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
        matrix = above @ _local(node)
        for instance in node.all("instance_geometry"):
            yield from self._geometry(self.named(instance), instance, matrix)
        for instance in node.all("instance_controller"):
            yield from self._controller(self.named(instance), instance, matrix)
        inside = [*node.all("node"), *(self.named(one) for one in node.all("instance_node"))]
        for one in inside:
            yield from self._node(one, matrix, depth + 1)

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
            self.limits.check("faces", self.faces + declared_face_count(geometry), self.limits.faces)
            self.surfaces_of[name] = read_surfaces(geometry)
        dressed = {
            one.attributes.get("symbol"): one
            for one in _descendants(instance)
            if one.name == "instance_material"
        }
        for surface in self.surfaces_of[name]:
            self.faces += len(surface.vertices) // 3
            self.limits.check("faces", self.faces, self.limits.faces)
            bound = dressed.get(surface.symbol)
            material = None if bound is None else self.looks.material(self.named(bound, "target"))
            yield _part(surface, material, matrix)


def _part(surface: ColladaSurface, material: MeshMaterial | None, matrix: Matrix) -> MeshPart:
    if material is None:
        material = MeshMaterial() if surface.colors is None else MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
    normals = surface.normals
    if normals is not None:
        upright = np.linalg.pinv(matrix[:3, :3]).T.astype(np.float32)
        normals = rotate_vectors(normals, upright)
    faces = np.arange(len(surface.vertices)).reshape(-1, 3)
    return MeshPart(
        transform_points(surface.vertices, matrix), faces, material, normals, surface.uv, surface.colors
    )


def _local(node: XmlElement) -> Matrix:
    matrix = np.eye(4)
    for step in node.all("matrix", "translate", "rotate", "scale"):
        matrix = matrix @ _step(step)
    return matrix


def _step(step: XmlElement) -> Matrix:
    origin, rest, whole = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.ones(3)
    if step.name == "matrix":
        return _numbers(step.text, 16).reshape(4, 4)
    if step.name == "translate":
        return placement_matrix(_numbers(step.text, 3), rest, whole)
    if step.name == "scale":
        return placement_matrix(origin, rest, _numbers(step.text, 3))
    x, y, z, degrees = _numbers(step.text, 4)
    axis, half = np.array([x, y, z]), np.radians(degrees) / 2
    turn = np.append(axis / max(float(np.linalg.norm(axis)), 1e-30) * np.sin(half), np.cos(half))
    return placement_matrix(origin, turn, whole)


def _numbers(text: str, count: int) -> Float64[np.ndarray, " k"]:
    numbers = np.array(text.split(), np.float64)
    if len(numbers) != count:
        raise MeshError(f"the dae file is damaged: {len(numbers)} numbers stand where {count} belong.")
    return numbers


def _descendants(element: XmlElement) -> Iterator[XmlElement]:
    waiting = [element]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)
