"""Numbers out of a glTF file: buffers, views (also compressed) and accessors, every bound checked.

Legend: k elements of an accessor · c components of each.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Shaped

from multifold.errors import needs_extra
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.formats.mesh_file import SiblingFiles

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
_WIDEST = 256  # bytes of an element


def compression_of(view: dict[str, Any]) -> dict[str, Any] | None:
    """How a buffer view is compressed, or None if it is plain."""
    extensions = view.get("extensions", {})
    described: dict[str, Any] | None = next(
        (extensions[name] for name in MESHOPT if name in extensions), None
    )
    return described


def unpack_meshopt(data: memoryview, described: dict[str, Any], count: int, width: int) -> bytes:
    """The plain bytes: `count` elements of `width` bytes."""
    with needs_extra("render"):
        import meshopt
    if width > _WIDEST:
        raise MeshError(f"the file is damaged: an element of its compressed data is {width} bytes wide.")
    kind = described.get("filter", "NONE")
    try:
        plain = meshopt.decode_gltf_buffer(bytes(data), count, width, described.get("mode"), kind)
    except (ValueError, RuntimeError) as error:
        raise MeshError("the meshopt-compressed part of the file is damaged.") from error
    return bytes(plain.tobytes())


COMPONENT_DTYPES = {
    5120: np.int8,
    5121: np.uint8,
    5122: np.int16,
    5123: np.uint16,
    5125: np.uint32,
    5126: np.float32,
}
ELEMENT_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def tree_entry(tree: dict[str, Any], kind: str, index: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON value)
    """`tree[kind][index]`, where the index may be any nonsense."""
    entries = tree.get(kind, [])
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(entries):
        raise MeshError(
            f"the file is damaged: it names number {index!r} of its {kind}, of which it has {len(entries)}."
        )
    found: dict[str, Any] = entries[index]
    return found


def whole_number(value: Any, what: str) -> int:  # noqa: ANN401 (any JSON value)
    """A JSON value that must be a whole number of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MeshError(f"the file is damaged: its {what} is {value!r}.")
    return value


@dataclass
class GltfBuffers:
    """The binary side of one glTF file."""

    tree: dict[str, Any]
    binary: bytes
    siblings: SiblingFiles
    limits: MeshLimits
    _loaded: dict[int, bytes] = field(default_factory=dict)
    _unpacked: dict[int, bytes] = field(default_factory=dict)

    def view(self, index: Any) -> memoryview:  # noqa: ANN401 (any JSON value)
        """The bytes of one buffer view."""
        described = tree_entry(self.tree, "bufferViews", index)
        compressed = compression_of(described)
        if compressed is None:
            return self._span(described)
        if index not in self._unpacked:
            self._unpacked[index] = self._unpack(compressed)
        return memoryview(self._unpacked[index])

    def _span(self, described: dict[str, Any]) -> memoryview:
        """The bytes of a buffer that something describes."""
        start = whole_number(described.get("byteOffset", 0), "byteOffset")
        length = whole_number(described.get("byteLength"), "byteLength")
        data = self._buffer(described.get("buffer"))
        if start + length > len(data):
            raise MeshError("the file is cut short: it describes more data than it holds.")
        return memoryview(data)[start : start + length]

    def _unpack(self, compressed: dict[str, Any]) -> bytes:
        count, width = (
            whole_number(compressed.get("count"), "count"),
            whole_number(compressed.get("byteStride"), "byteStride"),
        )
        so_far = sum(map(len, self._unpacked.values()))
        self.limits.check("bytes of unpacked data", so_far + count * width, self.limits.unpacked_bytes)
        return unpack_meshopt(self._span(compressed), compressed, count, width)

    def accessor(self, index: Any) -> Shaped[np.ndarray, "k c"]:  # noqa: ANN401 (any JSON value)
        """The elements of one accessor; normalised integers become float32."""
        described = tree_entry(self.tree, "accessors", index)
        values = self._dense(described)
        if "sparse" in described:
            values = self._sparse(described, values)
        return normalise_integers(described, values)

    def _buffer(self, index: Any) -> bytes:  # noqa: ANN401 (any JSON value)
        described = tree_entry(self.tree, "buffers", index)
        if index not in self._loaded:
            uri = described.get("uri")
            self._loaded[index] = self.binary if uri is None else read_uri(str(uri), self.siblings)
        return self._loaded[index]

    def _dense(self, described: dict[str, Any]) -> Shaped[np.ndarray, "k c"]:
        count, width, dtype = self._layout(described)
        if "bufferView" not in described:
            return np.zeros((count, width), dtype)
        stride = tree_entry(self.tree, "bufferViews", described["bufferView"]).get("byteStride")
        offset = whole_number(described.get("byteOffset", 0), "byteOffset")
        return _strided(self.view(described["bufferView"]), offset, stride, (count, width), dtype)

    def _sparse(
        self, described: dict[str, Any], values: Shaped[np.ndarray, "k c"]
    ) -> Shaped[np.ndarray, "k c"]:
        sparse, (_, width, dtype) = described["sparse"], self._layout(described)
        count = whole_number(sparse["count"], "sparse count")
        places, changes = sparse["indices"], sparse["values"]
        where = _strided(
            self.view(places["bufferView"]),
            whole_number(places.get("byteOffset", 0), "byteOffset"),
            None,
            (count, 1),
            np.dtype(COMPONENT_DTYPES[places["componentType"]]),
        )[:, 0]
        what = _strided(
            self.view(changes["bufferView"]),
            whole_number(changes.get("byteOffset", 0), "byteOffset"),
            None,
            (count, width),
            dtype,
        )
        changed = values.copy()
        changed[where] = what
        return changed

    def _layout(self, described: dict[str, Any]) -> tuple[int, int, np.dtype[Any]]:
        count = whole_number(described.get("count"), "count")
        self.limits.check("elements in one list", count, max(self.limits.vertices, 3 * self.limits.faces))
        return (
            count,
            ELEMENT_WIDTHS[described["type"]],
            np.dtype(COMPONENT_DTYPES[described["componentType"]]),
        )


def normalise_integers(
    described: dict[str, Any], values: Shaped[np.ndarray, "k c"]
) -> Shaped[np.ndarray, "k c"]:
    """Integers that stand for numbers in [0, 1] or [-1, 1], where the accessor says so."""
    if not described.get("normalized") or values.dtype.kind not in "iu":
        return values
    scaled = values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)
    return scaled.clip(-1, None)


def read_uri(uri: str, siblings: SiblingFiles) -> bytes:
    """A data URI decoded, or the file beside the mesh."""
    if not uri.startswith("data:"):
        return siblings.read(uri)
    header, comma, payload = uri.partition(",")
    if not comma or not header.endswith(";base64"):
        raise MeshError("the file is damaged: a data URI in it is not base64.")
    try:
        return base64.b64decode(payload)
    except (binascii.Error, ValueError) as error:
        raise MeshError("the file is damaged: a data URI in it is not base64.") from error


def _strided(
    data: memoryview,
    offset: int,
    stride: Any,  # noqa: ANN401 (any JSON value)
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> Shaped[np.ndarray, "k c"]:
    count, width = shape
    row = width * dtype.itemsize
    step = row if stride is None else whole_number(stride, "byteStride")
    if step < row and count > 1:
        raise MeshError("the file is damaged: elements of its data overlap.")
    if count and offset + step * (count - 1) + row > len(data):
        raise MeshError("the file is cut short: it describes more data than it holds.")
    return np.ndarray(shape, dtype, data, offset, (step, dtype.itemsize)).copy()
