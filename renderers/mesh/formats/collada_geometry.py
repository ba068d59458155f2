"""The meshes of a COLLADA file: polygons cut into triangles, whose corners are vertices of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from renderers.contracts import MeshError
from renderers.images.color import to_linear
from renderers.mesh.formats.xml import XmlElement

_KINDS = ("triangles", "polylist", "polygons", "tristrips", "trifans")
Values = Float64[np.ndarray, "k c"]


@dataclass(frozen=True, eq=False)
class ColladaSurface:
    """The triangles of one material, three vertices each."""

    symbol: str | None  # of the material
    vertices: Float64[np.ndarray, "n 3"]
    normals: Float32[np.ndarray, "n 3"] | None
    uv: Float32[np.ndarray, "n 2"] | None
    colors: Float32[np.ndarray, "n 4"] | None


def declared_face_count(geometry: XmlElement) -> int:
    """About how many triangles a geometry declares: enough to refuse too many."""
    return sum(
        int(one.attributes.get("count", 0)) for mesh in geometry.all("mesh") for one in mesh.all(*_KINDS)
    )


def read_surfaces(geometry: XmlElement) -> list[ColladaSurface]:
    """The geometry's triangles, one surface for each group of polygons."""
    return [
        _surface(mesh, group)
        for mesh in geometry.all("mesh")
        for group in mesh.all(*_KINDS)
        if any(one.text for one in group.all("p"))
    ]


def _surface(mesh: XmlElement, group: XmlElement) -> ColladaSurface:
    sources = {one.attributes.get("id"): one for one in mesh.all("source")}
    inputs = list(_inputs(mesh, group))
    width = 1 + max(offset for _, offset, _ in inputs)
    corners = np.concatenate(
        [rows[_triangles(group.name, rows, sizes)] for rows, sizes in _runs(group, width)]
    )
    found: dict[str, Values] = {}
    for semantic, offset, source in inputs:
        if semantic not in found and source in sources:
            found[semantic] = _looked_up(_values(sources[source]), corners[:, offset])
    if "POSITION" not in found:
        raise MeshError("the dae file is damaged: some of its polygons have no positions.")
    normals, uv, colors = (found.get(name) for name in ("NORMAL", "TEXCOORD", "COLOR"))
    return ColladaSurface(
        symbol=group.attributes.get("material"),
        vertices=found["POSITION"][:, :3],
        normals=None if normals is None else normals[:, :3].astype(np.float32),
        uv=None if uv is None else (uv[:, :2] * (1, -1) + (0, 1)).astype(np.float32),
        colors=None if colors is None else _light(colors),
    )


def _inputs(mesh: XmlElement, group: XmlElement) -> Iterator[tuple[str, int, str]]:
    """(meaning, column, source) of each number of a corner; VERTEX stands for what all vertices have."""
    shared = [one for vertices in mesh.all("vertices") for one in vertices.all("input")]
    for one in group.all("input"):
        offset = int(one.attributes.get("offset", 0))
        if offset < 0 or offset > 100:
            raise MeshError("the dae file is damaged: a corner of its polygons has too many numbers.")
        same = shared if one.attributes["semantic"] == "VERTEX" else [one]
        for source in same:
            yield source.attributes["semantic"], offset, source.attributes["source"].removeprefix("#")


def _runs(
    group: XmlElement, width: int
) -> Iterator[tuple[Int64[np.ndarray, "k w"], Int64[np.ndarray, " p"]]]:
    """The corners of each <p>, a row each, and how many belong to each polygon."""
    for p in group.all("p"):
        indices = np.array(p.text.split(), np.int64)
        rows = indices[: len(indices) // width * width].reshape(-1, width)
        counts = group.child("vcount")
        if group.name == "triangles":
            sizes = np.full(len(rows) // 3, 3)
        elif group.name == "polylist" and counts is not None:
            sizes = np.array(counts.text.split(), np.int64)
        else:
            sizes = np.array([len(rows)])
        if (sizes < 0).any() or sizes.sum() > len(rows):
            raise MeshError("the dae file is damaged: it has more polygons than corners.")
        yield rows, sizes


def _triangles(
    kind: str, rows: Int64[np.ndarray, "k w"], sizes: Int64[np.ndarray, " p"]
) -> Int64[np.ndarray, " n"]:
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
    numbers = source.child("float_array")
    accessor = source.child("technique_common", "accessor")
    if numbers is None or accessor is None:
        raise MeshError("the dae file is damaged: a list of numbers in it is missing.")
    stride, offset = (
        int(accessor.attributes.get(name, rest)) for name, rest in (("stride", 1), ("offset", 0))
    )
    if not 1 <= stride <= 16 or offset < 0:
        raise MeshError("the dae file is damaged: a list of numbers in it has a senseless form.")
    flat = np.array(numbers.text.split(), np.float64)[offset:]
    return flat[: len(flat) // stride * stride].reshape(-1, stride)


def _looked_up(values: Values, rows: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, "n c"]:
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(values):
        raise MeshError("the file is damaged: a face names a vertex that does not exist.")
    chosen: Float64[np.ndarray, "n c"] = values[rows]
    return chosen


def _light(colors: Values) -> Float32[np.ndarray, "n 4"]:
    """sRGB numbers in [0, 1] as linear light; a missing alpha is 1."""
    light = np.ones((len(colors), 4), np.float32)
    light[:, :3] = to_linear(np.rint(np.clip(colors[:, :3], 0, 1) * 255).astype(np.uint8))
    light[:, 3:] = colors[:, 3:4]
    return light
