"""What people hand in: data URIs and multipart fields become bytes with a suffix, within limits.

A name that comes with an upload gives nothing but its suffix; it never becomes a path.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from app.errors import ApiError
from app.observer import Mesh

DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*(;base64)?,", re.ASCII)
SUFFIX = re.compile(r"\.[a-z0-9]{1,16}", re.ASCII)
MESH_TYPES = {
    "model/gltf-binary": ".glb",
    "model/gltf+json": ".gltf",
    "model/obj": ".obj",
    "model/stl": ".stl",
    "model/ply": ".ply",
}
MESH_STARTS = {b"glTF": ".glb", b"ply": ".ply", b"OFF": ".off", b"solid": ".stl"}
PICTURE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
    ".heif": "image/heif",
}


@dataclass(frozen=True)
class File:
    """A file as it came: bytes, and what its sender says of them."""

    data: bytes
    name: str = ""
    media_type: str = ""


def from_data_uri(uri: str, what: str) -> File:
    """The file in a base64 data URI."""
    head = DATA_URI.match(uri)
    if head is None or head[2] is None:
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a file or a data URI: data:TYPE;base64,…")
    try:
        return File(base64.b64decode(uri[head.end() :], validate=True), media_type=head[1] or "")
    except (binascii.Error, ValueError):
        raise ApiError(422, f"bad_{what}", f"the base64 of '{what}' is damaged") from None


def mesh_of(file: File, form: str | None = None) -> Mesh:
    """A mesh whose format was said (as `form`, by file name or media type), or whose first bytes tell it."""
    said = f".{form.lower().lstrip('.')}" if form else PurePosixPath(file.name).suffix.lower()
    if SUFFIX.fullmatch(said):
        return Mesh(file.data, said)
    if file.media_type in MESH_TYPES:
        return Mesh(file.data, MESH_TYPES[file.media_type])
    for start, suffix in MESH_STARTS.items():
        if file.data.startswith(start):
            return Mesh(file.data, suffix)
    sentence = "cannot tell the format of the mesh; say it with 'mesh_format', such as glb"
    raise ApiError(422, "bad_mesh", sentence)


def media_type(headers: Mapping[str, str]) -> str:
    """What a body says it is."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()
