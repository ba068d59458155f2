"""Pictures for agents: files that they name, and pictures of items in a size that they can look at."""

import io
from collections.abc import Sequence
from pathlib import Path

from PIL.Image import Resampling

from multifold.bundle.preprocess import decode, flatten
from multifold.errors import MultifoldError
from multifold.wire.files import File, is_address, read_data_uri

LARGE_SIDE = 1024  # pixels of a picture that is asked for in detail


def read_file(name: str, folders: Sequence[Path]) -> File:
    """A file as an agent names it: a data URI, an address, or a path below one of these folders."""
    if is_address(name):
        return name
    try:
        if (held := read_data_uri(name)) is not None:
            return held.data
    except ValueError:
        raise MultifoldError("the base64 of the data URI is damaged") from None
    for folder in folders:
        path = (folder / name).resolve()
        if path.is_relative_to(folder.resolve()) and path.is_file():
            return path
    where = " or ".join(map(str, folders))
    known = f"a file below {where}, a data URI" if folders else "a data URI"
    raise MultifoldError(f"{name[:80]!r} is not {known} or an address")


def shrink_picture(data: bytes, side: int = LARGE_SIDE) -> bytes:
    """A picture as JPEG of at most so many pixels a side."""
    picture = flatten(decode(data))
    picture.thumbnail((side, side), Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    return out.getvalue()
