"""COLLADA (.dae) files -> parts: the visual scene with its transforms, instances and controllers at rest."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from renderers.errors import MeshError
from renderers.files.collada_geometry import Surface, face_count, surfaces
from renderers.files.collada_looks import Looks
from renderers.files.contents import Contents
from renderers.files.siblings import Siblings
from renderers.files.xml import Element, parse
from renderers.limits import Limits
from renderers.model import Axis, Material, Part
from renderers.transform import moved, placement, rotated

Matrix = Float64[np.ndarray, "4 4"]
_DEEPEST = 100  # nodes within nodes
_X_UP_TO_Y_UP = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float64)


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> Contents:  # noqa: ARG001 (readers are called alike)
    """The parts of a COLLADA file."""
    root = parse(data)
    if root.name != "COLLADA":
        raise MeshError("this is not a COLLADA file, although its name says so.")
    stated = root.child("asset", "up_axis")
    up = "Y_UP" if stated is None else stated.text.strip()
    file = _File(root, siblings, limits)
    parts = list(file.parts(_X_UP_TO_Y_UP if up == "X_UP" else np.eye(4)))
    axis: Axis = "z" if up == "Z_UP" else "y"
    return Contents(parts, file.looks.notes, axis)


@dataclass(eq=False)
class _File:
    root: Element
    siblings: Siblings
    limits: Limits
    by_id: dict[str, Element] = field(default_factory=dict)
    looks: Looks = field(init=False)
    surfaces_of: dict[str, list[Surface]] = field(default_factory=dict)
    instances: int = 0
    faces: int = 0

    def __post_init__(self) -> None:
        self.by_id = {one.attributes["id"]: one for one in _descendants(self.root) if "id" in one.attributes}
        self.looks = Looks(self.by_id, self.siblings, self.limits)

    def parts(self, matrix: Matrix) -> Iterator[Part]:
        """Everything that the scene shows; the first visual scene where none is named."""
        named = self.root.child("scene", "instance_visual_scene")
        scene = (
            self.root.child("library_visual_scenes", "visual_scene") if named is None else self.named(named)
        )
        for node in [] if scene is None else scene.all("node"):
            yield from self._node(node, matrix, 0)

    def named(self, reference: Element, attribute: str = "url") -> Element:
        """The element that a reference names."""
        name = reference.attributes.get(attribute, "").removeprefix("#")
        if name not in self.by_id:
            raise MeshError(f"the dae file is damaged: it names {name[:60]!r}, which it does not hold.")
        return self.by_id[name]

    def _node(self, node: Element, above: Matrix, depth: int) -> Iterator[Part]:
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

    def _controller(self, controller: Element, instance: Element, matrix: Matrix) -> Iterator[Part]:
        """A skinned or morphed mesh, at rest."""
        for skin in controller.all("skin", "morph"):
            bound = skin.child("bind_shape_matrix")
            placed = matrix if bound is None else matrix @ _numbers(bound.text, 16).reshape(4, 4)
            source = self.named(skin, "source")
            if source.name == "geometry":
                yield from self._geometry(source, instance, placed)

    def _geometry(self, geometry: Element, instance: Element, matrix: Matrix) -> Iterator[Part]:
        name = geometry.attributes["id"]
        if name not in self.surfaces_of:
            self.limits.check("faces", self.faces + face_count(geometry), self.limits.faces)
            self.surfaces_of[name] = surfaces(geometry)
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


def _part(surface: Surface, material: Material | None, matrix: Matrix) -> Part:
    if material is None:
        material = Material() if surface.colors is None else Material(base=(1.0, 1.0, 1.0, 1.0))
    normals = surface.normals
    if normals is not None:
        upright = np.linalg.pinv(matrix[:3, :3]).T.astype(np.float32)
        normals = rotated(normals, upright)
    faces = np.arange(len(surface.vertices)).reshape(-1, 3)
    return Part(moved(surface.vertices, matrix), faces, material, normals, surface.uv, surface.colors)


def _local(node: Element) -> Matrix:
    matrix = np.eye(4)
    for step in node.all("matrix", "translate", "rotate", "scale"):
        matrix = matrix @ _step(step)
    return matrix


def _step(step: Element) -> Matrix:
    origin, rest, whole = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.ones(3)
    if step.name == "matrix":
        return _numbers(step.text, 16).reshape(4, 4)
    if step.name == "translate":
        return placement(_numbers(step.text, 3), rest, whole)
    if step.name == "scale":
        return placement(origin, rest, _numbers(step.text, 3))
    x, y, z, degrees = _numbers(step.text, 4)
    axis, half = np.array([x, y, z]), np.radians(degrees) / 2
    turn = np.append(axis / max(float(np.linalg.norm(axis)), 1e-30) * np.sin(half), np.cos(half))
    return placement(origin, turn, whole)


def _numbers(text: str, count: int) -> Float64[np.ndarray, " k"]:
    numbers = np.array(text.split(), np.float64)
    if len(numbers) != count:
        raise MeshError(f"the dae file is damaged: {len(numbers)} numbers stand where {count} belong.")
    return numbers


def _descendants(element: Element) -> Iterator[Element]:
    waiting = [element]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)
