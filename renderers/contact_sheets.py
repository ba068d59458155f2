"""Contact sheets: the views of many meshes on a page, with their names above them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from renderers.batch import RenderRecord

ROWS, COLUMNS = 12, 12  # pictures on a page
CELL = 112  # pixels along a picture's side
_CAPTION = 14
_LETTER = 6  # pixels, of the built-in font


def page_count(record: RenderRecord, names: Sequence[str]) -> int:
    """How many pages these meshes fill."""
    return -(-len(names) // (ROWS * _across(_views(record, names))))


def contact_sheets(record: RenderRecord, names: Sequence[str]) -> Iterator[Image.Image]:
    """Pages of these meshes, the views of each side by side."""
    views = _views(record, names)
    across = _across(views)
    for start in range(0, len(names), ROWS * across):
        yield _page(record, names[start : start + ROWS * across], views, across)


def _views(record: RenderRecord, names: Sequence[str]) -> int:
    return max(len(record.drawn[name].pictures) for name in names)


def _across(views: int) -> int:
    """How many meshes stand side by side."""
    return max(1, COLUMNS // views)


def _page(record: RenderRecord, names: Sequence[str], views: int, across: int) -> Image.Image:
    rows = -(-len(names) // across)
    page = Image.new("RGB", (across * views * CELL, rows * (CELL + _CAPTION)), "white")
    draw = ImageDraw.Draw(page)
    for number, name in enumerate(names):
        row, column = divmod(number, across)
        left, top = column * views * CELL, row * (CELL + _CAPTION)
        draw.text((left + 4, top + 1), _shortened(name, views * CELL), fill="black")
        for nth, picture in enumerate(record.drawn[name].pictures):
            _paste(page, record.folder / picture, left + nth * CELL, top + _CAPTION)
    return page


def _paste(page: Image.Image, path: Path, left: int, top: int) -> None:
    with Image.open(path) as picture:
        small = picture.convert("RGBA").resize((CELL, CELL), Image.Resampling.BOX)
    page.paste(small, (left, top), small)


def _shortened(name: str, width: int) -> str:
    """The end of a name, which tells more than its beginning, as long as there is room."""
    room = width // _LETTER - 2
    return name if len(name) <= room else "…" + name[1 - room :]
