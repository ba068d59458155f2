"""Files on their way to the service: paths, bytes and pictures become parts of a form."""

import base64
import io
import json
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from PIL.Image import Image

from multifold.errors import MultifoldError
from multifold.preprocess import flatten

File: TypeAlias = str | Path | bytes
Picture: TypeAlias = str | Path | bytes | Image
Part: TypeAlias = tuple[str, tuple[str | None, str | bytes, str | None]]  # field, (file name, content, type)


def field(name: str, value: object) -> Part:
    """A plain field; an object goes as JSON."""
    return name, (None, json.dumps(value) if isinstance(value, (Mapping, bool)) else str(value), None)


def image(name: str, picture: Picture) -> Part:
    """A picture; one in memory travels as PNG, so that nothing is lost."""
    return file(name, _png(picture) if isinstance(picture, Image) else picture)


def file(name: str, content: File) -> Part:
    """A file by its path, or its bytes; an address is left to the service, which may fetch it."""
    if isinstance(content, bytes):
        return name, (name, content, "application/octet-stream")
    if is_address(content):
        return field(name, content)
    path = Path(content)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return name, (path.name, _read(path), kind)


def mesh(content: File | None, mesh_format: str | None) -> list[Part]:
    """A mesh, and its format if it was said."""
    if content is None:
        return []
    told = [] if mesh_format is None else [field("mesh_format", mesh_format)]
    return [file("mesh", content), *told]


def is_address(content: object) -> bool:
    """Whether it names a file on the web."""
    return isinstance(content, str) and content.lower().startswith(("http://", "https://"))


def data_uri(part: Part) -> str:
    """A file as a data URI; an address as it is."""
    _, (name, content, kind) = part
    if name is None and isinstance(content, str):
        return content
    data = content if isinstance(content, bytes) else content.encode()
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def suffix(content: object) -> str | None:
    """The format that a path tells."""
    if is_address(content) or not isinstance(content, (str, Path)):
        return None
    return Path(content).suffix.lstrip(".").lower() or None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MultifoldError(f"cannot read {path}: {error.strerror}") from error


def _png(picture: Image) -> bytes:
    out = io.BytesIO()
    flatten(picture).save(out, "PNG")
    return out.getvalue()
