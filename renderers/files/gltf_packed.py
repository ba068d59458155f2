"""Buffer views that a glTF file stores compressed by meshoptimizer."""

from typing import Any

from multifold.errors import needs_extra
from renderers.errors import MeshError

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
_WIDEST = 256  # bytes of an element


def packed(view: dict[str, Any]) -> dict[str, Any] | None:
    """How a buffer view is compressed, or None if it is plain."""
    extensions = view.get("extensions", {})
    described: dict[str, Any] | None = next(
        (extensions[name] for name in MESHOPT if name in extensions), None
    )
    return described


def unpack(data: memoryview, described: dict[str, Any], count: int, width: int) -> bytes:
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
