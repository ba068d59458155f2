"""Mesh files -> models: load, refuse, normalise.

    model = load_model(Path("chair.glb"))

Every refusal is a `MeshError` with a sentence for the file's owner.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from multifold.errors import MultifoldError
from renderers.contracts import (
    DEFAULT_LIMITS,
    Axis,
    Colors,
    MeshError,
    MeshLimits,
    MeshModel,
    MeshPart,
    Points,
    TextureCoordinates,
    Up,
)
from renderers.mesh.formats import collada, gltf, step, threemf, trimesh_reader, usd
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, read_bytes, suffix_of
from renderers.mesh.formats.table import FORMAT_OF, FORMATS
from renderers.mesh.formats.transform import rotate_vectors
from renderers.mesh.normals import corner_normals, fill_missing_normals

_READERS = {
    "gltf": gltf.read,
    "3mf": threemf.read,
    "collada": collada.read,
    "step": step.read,
    "usd": usd.read,
    **dict.fromkeys(("obj", "ply", "stl", "off"), trimesh_reader.read),
}
assert set(_READERS) == {one.name for one in FORMATS}
_Z_UP_TO_Y_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], np.float64)
_FURTHEST_UV = 1e4  # coordinates beyond are nonsense, and would overflow whole numbers
_HEAD = 4096  # bytes in which a file may say who wrote it


def load_model(
    path: Path, limits: MeshLimits = DEFAULT_LIMITS, up: Up = "auto", within: Path | None = None
) -> MeshModel:
    """The mesh in this file, validated, upright (Y up) and scaled into the unit ball.

    Files that it names are read if they lie in its folder, or in the wider folder `within`.
    """
    suffix = suffix_of(path)
    data = read_bytes(path, limits)
    siblings = SiblingFiles(path.parent, limits, within, bytes_read=len(data), mesh=path)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by name
            contents = _READERS[FORMAT_OF[suffix].name](data, suffix, siblings, limits)
            axis, reason = _up_axis(suffix, up, contents.up, data[:_HEAD])
            parts = _drawn_parts(contents.parts)
            model = assemble_model(parts, axis, tuple(contents.notes))
            facts = _measure(contents, parts, model)
    except MultifoldError:
        raise
    except MemoryError as error:
        raise MeshError("there is not enough memory for this file. Simplify it first.") from error
    except Exception as error:  # parsers raise every kind on bad input
        cause = f"{type(error).__name__}: {error!s:.120}"
        raise MeshError(f"the {suffix[1:]} file is damaged. Export it anew. ({cause})") from error
    return replace(model, up_reason=reason, facts={**facts, "bytes": siblings.bytes_read})


def _up_axis(suffix: str, up: Up, stated: Axis | None, head: bytes) -> tuple[Axis, str]:
    """The up axis and the reason: the caller's word, the file's, its format's custom, or a guess."""
    if up != "auto":
        return up, "as told"
    if stated is not None:
        return stated, "the file says so"
    if (usual := FORMAT_OF[suffix].up) is not None:
        return usual
    if suffix == ".ply" and b"Blender" in head:
        return "z", "a guess: Blender writes PLY files with Z up"
    return "y", f"a guess: {suffix[1:].upper()} files don't say, and most have Y up"


def _measure(
    contents: MeshContents, parts: Sequence[MeshPart], model: MeshModel
) -> dict[str, float | int | bool]:
    """Facts of a mesh as its file has it. Its size is in metres; it has none where the file has no unit."""
    facts: dict[str, float | int | bool] = {}
    if contents.metres is not None:
        low = np.min([part.vertices.min(axis=0) for part in parts], axis=0)
        high = np.max([part.vertices.max(axis=0) for part in parts], axis=0)
        width, second, third = contents.metres * (high - low)
        height, depth = (second, third) if model.up == "y" else (third, second)
        sizes = {"width": width, "height": height, "depth": depth}
        facts.update({name: float(f"{size:.4g}") for name, size in sizes.items()})
    if triangles := sum(len(part.faces) for part in parts if not part.is_cloud):
        facts["triangles"] = triangles
    facts["materials"] = len(model.materials)
    facts["textures"] = sum(bool(one.textures) for one in model.materials)
    facts["animated"] = contents.animated
    return facts


def assemble_model(parts: Sequence[MeshPart], up: Axis = "y", notes: tuple[str, ...] = ()) -> MeshModel:
    """Parts in the world as one model; every vertex of theirs is used by a face."""
    vertices = _into_unit_ball(np.concatenate([part.vertices for part in parts]))
    normals = np.concatenate([_corner_normals(part) for part in parts])
    if up == "z":
        vertices = rotate_vectors(vertices, _Z_UP_TO_Y_UP)
        normals = rotate_vectors(normals, _Z_UP_TO_Y_UP.astype(np.float32))
    starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
    materials = {id(part.material): part.material for part in parts}
    number_of = {key: number for number, key in enumerate(materials)}
    numbers = [number_of[id(part.material)] for part in parts]
    faces = [part.faces + start for part, start in zip(parts, starts, strict=True)]
    return MeshModel(
        vertices=vertices.astype(np.float32),
        faces=np.concatenate(faces).astype(np.int32),
        normals=normals,
        uv=_joined_uv([(part, part.uv) for part in parts]),
        colors=_joined_colors(parts),
        material_of=np.repeat(numbers, [len(part.faces) for part in parts]).astype(np.int32),
        materials=tuple(materials.values()),
        up=up,
        notes=notes,
        uv1=None
        if all(part.uv1 is None for part in parts)
        else _joined_uv([(part, part.uv1) for part in parts]),
    )


def _drawn_parts(parts: Iterable[MeshPart]) -> list[MeshPart]:
    """Those with faces, without vertices that no face uses."""
    drawn = [_compact(part) for part in parts if len(part.faces)]
    if not drawn:
        raise MeshError("the file holds neither triangles nor points, so there is nothing to draw.")
    return drawn


def _compact(part: MeshPart) -> MeshPart:
    """The part without vertices that no face uses; those it uses must be finite."""
    named = np.zeros(len(part.vertices), bool)
    named[part.faces] = True
    used = np.flatnonzero(named)
    faces = (np.cumsum(named) - 1)[part.faces]
    vertices = part.vertices[used]
    if not np.isfinite(vertices).all():
        raise MeshError("the file is damaged: some of its corners lie at infinity or nowhere (NaN).")
    return replace(
        part,
        vertices=vertices,
        faces=faces,
        normals=None if part.normals is None else part.normals[used],
        uv=None if part.uv is None else part.uv[used],
        colors=None if part.colors is None else part.colors[used],
        uv1=None if part.uv1 is None else part.uv1[used],
    )


def _into_unit_ball(vertices: Points) -> Points:
    """Centred by the bounding box, the furthest vertex at distance 1."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    centred = vertices - (low / 2 + high / 2)
    size = np.abs(centred).max()
    if not np.isfinite(size) or size < np.finfo(np.float64).tiny:
        raise MeshError(
            "the mesh has no extent: all of its corners are the same point, or it is infinitely large."
        )
    centred /= size
    return np.asarray(centred / np.linalg.norm(centred, axis=1).max())


def _corner_normals(part: MeshPart) -> Float32[np.ndarray, "f 3 3"]:
    """The file's normals where they are usable, ours where not."""
    if part.normals is None:
        return corner_normals(part.vertices, part.faces)
    length = np.linalg.norm(part.normals, axis=1, keepdims=True)
    unsound = ~(np.isfinite(length) & (length > 1e-12))[:, 0]
    normals = (part.normals / length)[part.faces]
    return fill_missing_normals(normals, unsound[part.faces], part.vertices, part.faces)


def _joined_uv(pairs: Sequence[tuple[MeshPart, Float32[np.ndarray, "_ 2"] | None]]) -> TextureCoordinates:
    """The texture coordinates of all parts; those that have none get zeros."""
    rows = [np.zeros((len(part.vertices), 2)) if one is None else one for part, one in pairs]
    finite = np.nan_to_num(np.concatenate(rows).astype(np.float32))
    return np.clip(finite, -_FURTHEST_UV, _FURTHEST_UV)


def _joined_colors(parts: Sequence[MeshPart]) -> Colors:
    """The colours of all parts; those that have none get white."""
    rows = [
        np.ones((len(part.vertices), 4), np.float32) if part.colors is None else part.colors for part in parts
    ]
    return np.asarray(np.clip(np.nan_to_num(np.concatenate(rows)), 0, 1))
