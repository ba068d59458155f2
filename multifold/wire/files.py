"""Files in requests: as a client names them, and as they travel, in a form or as a data URI."""

import base64
import io
import mimetypes
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeGuard

from PIL.Image import Image

from multifold.bundle.preprocess import flatten
from multifold.errors import MultifoldError
from multifold.wire.messages import ReadAs

UNKNOWN_TYPE = "application/octet-stream"
DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII)


@dataclass(frozen=True)
class UploadedFile:
    """A file as it travels: its bytes, and its name and media type as far as they are known."""

    data: bytes
    name: str = ""
    media_type: str = ""

    @property
    def data_uri(self) -> str:
        return f"data:{self.media_type or UNKNOWN_TYPE};base64,{base64.b64encode(self.data).decode()}"


# A client gives a path, bytes or an address of the web. In JSON a file is a data URI or an address.
File: TypeAlias = Annotated[str | Path | bytes | UploadedFile, ReadAs(str)]
Picture: TypeAlias = Annotated[str | Path | bytes | Image | UploadedFile, ReadAs(str)]


def is_address(content: object) -> TypeGuard[str]:
    """Whether it names a file on the web."""
    return isinstance(content, str) and content.lower().startswith(("http://", "https://"))


def open_file(content: Picture) -> UploadedFile | str:
    """A file to be sent, a picture in memory as PNG, so that nothing is lost; an address stays as it is."""
    if isinstance(content, UploadedFile):
        return content
    if isinstance(content, bytes):
        return UploadedFile(content)
    if isinstance(content, Image):
        png = io.BytesIO()
        flatten(content).save(png, "PNG")
        return UploadedFile(png.getvalue())
    if is_address(content):
        return content
    path = Path(content)
    try:
        return UploadedFile(path.read_bytes(), path.name, mimetypes.guess_type(path.name)[0] or UNKNOWN_TYPE)
    except OSError as error:
        raise MultifoldError(f"cannot read {path}: {error.strerror}") from error


def read_data_uri(content: str) -> UploadedFile | None:
    """What a data URI holds, or None if it is none; a damaged one is a ValueError."""
    head = DATA_URI.match(content)
    if head is None:
        return None
    return UploadedFile(base64.b64decode(content[head.end() :], validate=True), media_type=head[1] or "")


def file_text(content: Picture) -> str:
    """A file as it stands in JSON: a data URI, or an address."""
    opened = open_file(content)
    return opened if isinstance(opened, str) else opened.data_uri


def suffix_format(content: object) -> str | None:
    """The format that the name of a file on this machine tells."""
    if isinstance(content, (str, Path)) and not is_address(content):
        return Path(content).suffix.lstrip(".").lower() or None
    return None
