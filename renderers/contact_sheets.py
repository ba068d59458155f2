"""Contact sheets: the views of many meshes on a page, with their names above them."""

from collections.abc import Iterator, Sequence

from PIL import Image, ImageDraw

from renderers.batch import RenderRecord

ROWS, COLUMNS = 12, 12  # pictures on a page
CELL = 112  # pixels along a picture's side
_CAPTION = 14
_LETTER = 6  # pixels, of the built-in font


def page_count(record: RenderRecord, names: Sequence[str]) -> int:
    return -(-len(names) // (ROWS * _layout(record, names)[1]))


def contact_sheets(record: RenderRecord, names: Sequence[str]) -> Iterator[Image.Image]:
    """Pages of these meshes, the views of each side by side."""
    views, across = _layout(record, names)
    for start in range(0, len(names), ROWS * across):
        yield _page(record, names[start : start + ROWS * across], views, across)


def _layout(record: RenderRecord, names: Sequence[str]) -> tuple[int, int]:
    """The most views that a mesh has, and how many meshes stand side by side."""
    views = max(len(record.entries[name].pictures) for name in names)
    return views, max(1, COLUMNS // views)


def _page(record: RenderRecord, names: Sequence[str], views: int, across: int) -> Image.Image:
    rows, room = -(-len(names) // across), views * CELL // _LETTER - 2
    page = Image.new("RGB", (across * views * CELL, rows * (CELL + _CAPTION)), "white")
    draw = ImageDraw.Draw(page)
    for number, name in enumerate(names):
        row, column = divmod(number, across)
        left, top = column * views * CELL, row * (CELL + _CAPTION)
        # the end of a name tells more than its beginning
        caption = name if len(name) <= room else "…" + name[1 - room :]
        draw.text((left + 4, top + 1), caption, fill="black")
        for nth, path in enumerate(record.entries[name].pictures):
            with Image.open(record.folder / path) as picture:
                small = picture.convert("RGBA").resize((CELL, CELL), Image.Resampling.BOX)
            page.paste(small, (left + nth * CELL, top + _CAPTION), small)
    return page
