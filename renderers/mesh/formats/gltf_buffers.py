"""Numbers out of a glTF file: buffers, views (also compressed) and accessors, every bound checked.

Legend: k elements of an accessor · c components of each.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Shaped

from multifold.errors import needs_extra
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.formats.mesh_file import SiblingFiles, read_uri

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
_WIDEST = 256  # bytes of an element
Elements: TypeAlias = Shaped[np.ndarray, "k c"]
DTYPES: dict[int, type[np.generic]] = {
    5120: np.int8,
    5121: np.uint8,
    5122: np.int16,
    5123: np.uint16,
    5125: np.uint32,
    5126: np.float32,
}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def tree_entry(tree: dict[str, Any], kind: str, index: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON value)
    """`tree[kind][index]`, where the index may be any JSON value."""
    entries = tree.get(kind, [])
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(entries):
        raise MeshError(
            f"the file is damaged: it names number {index!r} of its {kind}, of which it has {len(entries)}."
        )
    entry: dict[str, Any] = entries[index]
    return entry


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
        extensions = described.get("extensions", {})
        compressed = next((extensions[name] for name in MESHOPT if name in extensions), None)
        if compressed is None:
            return self._span(described)
        if index not in self._unpacked:
            self._unpacked[index] = self._unpack_meshopt(compressed)
        return memoryview(self._unpacked[index])

    def _span(self, described: dict[str, Any]) -> memoryview:
        """The bytes of a buffer that something describes."""
        start = whole_number(described.get("byteOffset", 0), "byteOffset")
        length = whole_number(described.get("byteLength"), "byteLength")
        data = self._buffer(described.get("buffer"))
        if start + length > len(data):
            raise MeshError("the file is cut short: it describes more data than it holds.")
        return memoryview(data)[start : start + length]

    def _unpack_meshopt(self, compressed: dict[str, Any]) -> bytes:
        with needs_extra("render"):
            import meshopt
        count = whole_number(compressed.get("count"), "count")
        width = whole_number(compressed.get("byteStride"), "byteStride")
        total = sum(map(len, self._unpacked.values())) + count * width
        self.limits.check("bytes of unpacked data", total, self.limits.unpacked_bytes)
        data = bytes(self._span(compressed))
        if width > _WIDEST:
            raise MeshError(f"the file is damaged: an element of its compressed data is {width} bytes wide.")
        kind = compressed.get("filter", "NONE")
        try:
            plain = meshopt.decode_gltf_buffer(data, count, width, compressed.get("mode"), kind)
        except (ValueError, RuntimeError) as error:
            raise MeshError("the meshopt-compressed part of the file is damaged.") from error
        return bytes(plain.tobytes())

    def accessor(self, index: Any) -> Elements:  # noqa: ANN401 (any JSON value)
        """The elements of one accessor; normalised integers become float32."""
        described = tree_entry(self.tree, "accessors", index)
        count = whole_number(described.get("count"), "count")
        self.limits.check("elements in one list", count, max(self.limits.vertices, 3 * self.limits.faces))
        width, dtype = (
            WIDTHS[described["type"]],
            np.dtype(DTYPES[described["componentType"]]),
        )
        values = np.zeros((count, width), dtype)
        if "bufferView" in described:
            stride = tree_entry(self.tree, "bufferViews", described["bufferView"]).get("byteStride")
            values = self._elements(described, stride, (count, width), dtype)
        if "sparse" in described:
            sparse = described["sparse"]
            changes = whole_number(sparse["count"], "sparse count")
            index_dtype = np.dtype(DTYPES[sparse["indices"]["componentType"]])
            where = self._elements(sparse["indices"], None, (changes, 1), index_dtype)[:, 0]
            values[where] = self._elements(sparse["values"], None, (changes, width), dtype)
        return normalise_integers(described, values)

    def _buffer(self, index: Any) -> bytes:  # noqa: ANN401 (any JSON value)
        described = tree_entry(self.tree, "buffers", index)
        if index not in self._loaded:
            uri = described.get("uri")
            self._loaded[index] = self.binary if uri is None else read_uri(str(uri), self.siblings)
        return self._loaded[index]

    def _elements(
        self, described: dict[str, Any], stride: object, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> Elements:
        """The elements that begin at an offset of a buffer view, `stride` bytes apart."""
        data = self.view(described["bufferView"])
        offset = whole_number(described.get("byteOffset", 0), "byteOffset")
        count = shape[0]
        row = shape[1] * dtype.itemsize
        step = row if stride is None else whole_number(stride, "byteStride")
        if step < row and count > 1:
            raise MeshError("the file is damaged: elements of its data overlap.")
        if count and offset + step * (count - 1) + row > len(data):
            raise MeshError("the file is cut short: it describes more data than it holds.")
        return np.ndarray(shape, dtype, data, offset, (step, dtype.itemsize)).copy()


def normalise_integers(described: dict[str, Any], values: Elements) -> Elements:
    """Integers that stand for numbers in [0, 1] or [-1, 1], where the accessor says so."""
    if not described.get("normalized") or values.dtype.kind not in "iu":
        return values
    scaled = values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)
    return scaled.clip(-1, None)
