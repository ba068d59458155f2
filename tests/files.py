"""Files that a test reads."""

import io
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont


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


def sign_file(*lines: str) -> bytes:
    """A picture of a white sign on a grey wall, with these lines on it."""
    image = Image.new("RGB", (640, 480), (120, 120, 120))
    draw = ImageDraw.Draw(image)
    draw.rectangle((40, 60, 600, 420), fill="white")
    for place, line in enumerate(lines):
        draw.text((70, 90 + 90 * place), line, fill="black", font=ImageFont.load_default(size=56))
    return picture_file(image)
