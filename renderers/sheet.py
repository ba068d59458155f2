"""Contact sheets: the views of many meshes on a page, a row each, with their names."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

ROWS = 12
_CAPTION = 14


def sheet(rows: Sequence[tuple[str, Sequence[Image.Image]]]) -> Image.Image:
    """One page; every row has the same number of pictures, all of one size."""
    width, height = rows[0][1][0].size
    columns = max(len(pictures) for _, pictures in rows)
    page = Image.new("RGB", (columns * width, len(rows) * (height + _CAPTION)), "white")
    draw = ImageDraw.Draw(page)
    for number, (name, pictures) in enumerate(rows):
        top = number * (height + _CAPTION)
        draw.text((4, top + 1), name, fill="black")
        for column, picture in enumerate(pictures):
            page.paste(picture, (column * width, top + _CAPTION))
    return page
