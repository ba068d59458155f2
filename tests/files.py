"""Files that a test reads."""

import io
from pathlib import Path
from typing import Any

from PIL import Image


def put(path: Path, content: bytes | str = "x") -> Path:
    """A file with this content, in folders that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def picture_file(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:  # noqa: ANN401 (Pillow has its own)
    """The bytes of a picture file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()
