"""A piece as a trimesh scene and as the bytes of a GLB file."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from PIL import Image

from multifold.errors import needs_extra
from training.data.furniture.modeling.palette import MATERIALS, Finish
from training.data.furniture.modeling.piece import FurniturePiece
from training.data.furniture.modeling.primitives import PartMesh, merge
from training.data.furniture.modeling.textures import texture

with needs_extra("render"):
    import trimesh
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

TILE = 0.55  # how much of the piece's radius one texture covers


def scene(piece: FurniturePiece) -> trimesh.Scene:
    """One geometry for all parts that share a name and a finish."""
    groups: dict[tuple[str, Finish], list[PartMesh]] = {}
    for part in piece.parts:
        groups.setdefault((part.name, part.finish), []).append(part.mesh)
    materials = {finish: _material(finish) for _, finish in groups}
    result = trimesh.Scene()
    tile = TILE * piece.radius
    for (name, finish), meshes in groups.items():
        mesh = merge(meshes)
        visual = TextureVisuals(uv=mesh.uv / tile, material=materials[finish])  # type: ignore[no-untyped-call]
        make = partial(trimesh.Trimesh, vertex_normals=mesh.normals, visual=visual, process=False)
        geometry = make(mesh.vertices, mesh.faces)
        result.add_geometry(geometry, node_name=name, geom_name=name)
    return result


def glb(piece: FurniturePiece) -> bytes:
    """The piece as a GLB file, its textures inside."""
    export: Callable[..., bytes] = scene(piece).export
    return export(file_type="glb", include_normals=True)


def _material(finish: Finish) -> PBRMaterial:
    kind = MATERIALS[finish.material]
    picture = texture(finish)
    paint: dict[str, Any] = {"baseColorFactor": [*_linear(finish.rgb), 1.0]}
    if picture is not None:
        paint = {"baseColorTexture": Image.fromarray(picture)}
    name = "-".join(filter(None, (finish.colour, finish.pattern, finish.material)))
    return PBRMaterial(  # type: ignore[no-untyped-call]
        name=name, metallicFactor=kind.metallic, roughnessFactor=kind.roughness, **paint
    )


def _linear(rgb: tuple[int, int, int]) -> Float64[np.ndarray, " 3"]:
    value = np.asarray(rgb, float) / 255
    linear: Float64[np.ndarray, " 3"] = np.where(
        value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4
    )
    return linear
