"""3MF files -> parts: objects and components where the build has them, with colours and textures."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from renderers.errors import MeshError
from renderers.files.contents import Contents
from renderers.files.package import Package
from renderers.files.siblings import Siblings
from renderers.files.threemf_looks import Looks
from renderers.files.threemf_model import Key, ModelFile, Place, read_model
from renderers.files.xml import parse
from renderers.limits import Limits
from renderers.model import Part

_USUAL_ROOT = "3D/3dmodel.model"
_RELATIONS = "_rels/.rels"
_ROOT_KIND = "3dmodel"
_DEEPEST = 50  # components within components


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> Contents:  # noqa: ARG001 (readers are called alike)
    """The parts of a 3MF file; its siblings are none of its business."""
    package = Package(data, limits)
    file = _File(package, limits)
    root = file.model(_root(package))
    places = root.build or [Place(key, np.eye(4)) for key in root.objects]
    file.count(places)
    parts = [part for place in places for part in file.parts(place, np.eye(4))]
    return Contents(parts, file.looks.notes)


def _root(package: Package) -> str:
    if _RELATIONS in package:
        for relation in parse(package.read(_RELATIONS)).all("Relationship"):
            if relation.attributes.get("Type", "").endswith(_ROOT_KIND):
                return relation.attributes.get("Target", _USUAL_ROOT)
    return _USUAL_ROOT


@dataclass
class _File:
    package: Package
    limits: Limits
    looks: Looks = field(init=False)
    _models: dict[str, ModelFile] = field(default_factory=dict)
    _sizes: dict[Key, tuple[int, int]] = field(default_factory=dict)  # faces, instances

    def __post_init__(self) -> None:
        self.looks = Looks(self.package, self.limits)

    def model(self, path: str) -> ModelFile:
        """One of the model files in the package."""
        path = path.lstrip("/")
        if path not in self._models:
            self._models[path] = read_model(path, self.package.read(path), self.limits)
        return self._models[path]

    def count(self, places: list[Place]) -> None:
        """Refuse a build with too much in it, before any of it is placed."""
        sizes = [self._size(place.key, 0) for place in places]
        self.limits.check("instances", sum(instances for _, instances in sizes), self.limits.instances)
        self.limits.check("faces", sum(faces for faces, _ in sizes), self.limits.faces)

    def parts(self, place: Place, above: Float64[np.ndarray, "4 4"]) -> Iterator[Part]:
        """An object and its components in the world."""
        model, matrix = self.model(place.key[0]), above @ place.matrix
        item = model.objects[place.key]
        yield from self.looks.parts(model, item, matrix)
        for component in item.components:
            yield from self.parts(component, matrix)

    def _size(self, key: Key, depth: int) -> tuple[int, int]:
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
