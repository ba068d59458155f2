"""Pictures and texts that an encoder is asked when it is made into a bundle: drawn and put together here."""

from itertools import product

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 150, 60),
    "blue": (40, 60, 200),
    "yellow": (240, 210, 40),
    "black": (10, 10, 10),
    "white": (245, 245, 245),
}
FORMS = ("circle", "square", "triangle")
BACKGROUNDS = ("white", "black", "blue", "yellow")
STRANGE = (
    "",
    "  Çhair &amp; table\t—\n\u200b\U0001f6cb\ufe0f ",
    "ein roter Stuhl",
    "赤い椅子",
    "word " * 200,
)
KINDS = ("small", "large", "old", "modern", "wooden", "metal", "broken", "toy")
THINGS = (
    *(
        "chair",
        "table",
        "lamp",
        "car",
        "ship",
        "aeroplane",
        "bicycle",
        "house",
        "bridge",
        "tree",
        "flower",
        "dog",
    ),
    *(
        "cat",
        "horse",
        "bird",
        "fish",
        "person",
        "hand",
        "shoe",
        "hat",
        "cup",
        "bottle",
        "knife",
        "book",
        "clock",
    ),
    *("telephone", "computer", "guitar", "ball", "mountain", "beach", "plate of food"),
)


def canary_texts() -> list[str]:
    """What the canary pictures show, and strange texts."""
    return [f"a {colour} {form}" for colour, form in zip(COLOURS, 2 * FORMS, strict=True)] + [*STRANGE]


def canary_pictures() -> list[Image.Image]:
    """A form of each colour, in pictures of odd sizes."""
    drawn = enumerate(zip(COLOURS, 2 * FORMS, strict=True))
    return [
        _picture(form, colour, (150 - 7 * i, 110 + 9 * i), BACKGROUNDS[i % 4]) for i, (colour, form) in drawn
    ]


def probe_texts() -> list[str]:
    """Queries for an index to measure its recall with."""
    return [f"a photo of a {kind} {thing}" for kind, thing in product(KINDS, THINGS)]


def _picture(form: str, colour: str, size: tuple[int, int], behind: str) -> Image.Image:
    """A form on a background that fades from side to side, so that resizing and cutting can be seen."""
    fade = np.linspace(0.55, 1.0, size[0])[None, :, None] * np.ones((size[1], 1, 1))
    ground = COLOURS[behind if behind != colour else "green"]
    picture = Image.fromarray((fade * np.array(ground)).astype(np.uint8))
    left, top, right, bottom = size[0] // 4, size[1] // 4, 3 * size[0] // 4, 3 * size[1] // 4
    draw, fill = ImageDraw.Draw(picture), COLOURS[colour]
    if form == "circle":
        draw.ellipse((left, top, right, bottom), fill)
    elif form == "square":
        draw.rectangle((left, top, right, bottom), fill)
    else:
        draw.polygon([(left, bottom), (right, bottom), (size[0] // 2, top)], fill)
    return picture
