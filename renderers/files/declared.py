"""The sizes that OBJ, PLY, STL and OFF files declare, checked before anything is made of that size."""

import re

from renderers.errors import MeshError
from renderers.limits import Limits

_STL_HEADER, _STL_FACE = 84, 50


def check_declared(data: bytes, suffix: str, limits: Limits) -> None:
    """The counts that a header declares, before anything is made of that size."""
    if suffix == ".stl" and data[:5].lower() != b"solid":
        count = int.from_bytes(data[80:_STL_HEADER], "little")
        limits.check("faces", count, limits.faces)
        if len(data) < _STL_HEADER + _STL_FACE * count:
            raise MeshError("the stl file is cut short, or is no STL file.")
    if suffix == ".ply":
        if not data.startswith(b"ply"):
            raise MeshError("this is not a PLY file, although its name says so.")
        header = data[: data.find(b"end_header")]
        for kind, count in re.findall(rb"element\s+(vertex|face)\s+(\d{1,18})\b", header):
            _check_count(kind.decode(), int(count), len(data), limits)
    if suffix == ".off":
        counts = re.search(rb"OFF\s+(?:#[^\n]*\s+)*(\d{1,18})\s+(\d{1,18})", data[:4096])
        if counts is None:
            raise MeshError("this is not an OFF file, although its name says so.")
        _check_count("vertex", int(counts[1]), len(data), limits)
        _check_count("face", int(counts[2]), len(data), limits)
    if suffix == ".obj":
        limits.check("faces", data.count(b"\nf "), limits.faces)
        limits.check("vertices", data.count(b"\nv "), limits.vertices)


def _check_count(kind: str, count: int, size: int, limits: Limits) -> None:
    what, most = ("vertices", limits.vertices) if kind == "vertex" else ("faces", limits.faces)
    limits.check(what, count, most)
    if count > size:
        raise MeshError(f"the file declares {count:,} {what} but is only {size:,} bytes long.")
