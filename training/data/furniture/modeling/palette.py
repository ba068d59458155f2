"""The colours, materials and patterns a part can have, and the words for them."""

from dataclasses import dataclass

from multifold.errors import MultifoldError

COLOURS: dict[str, tuple[int, int, int]] = {  # sRGB
    "red": (200, 28, 34),
    "orange": (240, 125, 20),
    "yellow": (255, 222, 35),
    "green": (40, 140, 60),
    "turquoise": (50, 190, 185),
    "blue": (35, 80, 200),
    "purple": (120, 50, 160),
    "pink": (245, 140, 180),
    "brown": (115, 70, 35),
    "beige": (230, 206, 160),
    "white": (245, 245, 245),
    "grey": (128, 131, 136),
    "black": (28, 28, 30),
}

COLOUR_WORDS: dict[str, tuple[str, ...]] = {
    "grey": ("grey", "gray"),
    "turquoise": ("turquoise", "teal"),
    "purple": ("purple", "violet"),
    "beige": ("beige", "cream"),
}

ALIKE_COLOURS = ("white beige", "red orange", "brown orange", "blue purple", "black grey", "yellow orange")


@dataclass(frozen=True)
class FurnitureMaterial:
    """How light falls on a material, what it is called, and which colours it comes in (all, unless said)."""

    metallic: float
    roughness: float
    words: tuple[str, ...]
    tails: tuple[str, ...]
    colours: tuple[str, ...] = tuple(COLOURS)
    patterns: tuple[str, ...] = ()


PATTERNS = ("striped", "checked", "dotted")
MARBLES = ("white", "grey", "black", "green", "pink")
GLASSES = ("turquoise", "green", "blue", "white")
MATERIALS: dict[str, FurnitureMaterial] = {
    "wood": FurnitureMaterial(0.0, 0.6, ("wooden", "wood"), ("made of wood", "of wood")),
    "metal": FurnitureMaterial(0.75, 0.35, ("metal", "metallic"), ("made of metal",)),
    "plastic": FurnitureMaterial(0.0, 0.35, ("plastic",), ("made of plastic",)),
    "fabric": FurnitureMaterial(0.0, 1.0, ("fabric", "cloth"), (), patterns=PATTERNS),
    "leather": FurnitureMaterial(0.0, 0.45, ("leather",), ()),
    "ceramic": FurnitureMaterial(0.0, 0.2, ("ceramic", "porcelain"), (), patterns=PATTERNS),
    "marble": FurnitureMaterial(0.0, 0.2, ("marble",), ("made of marble",), MARBLES),
    "glass": FurnitureMaterial(0.1, 0.1, ("glass",), ("made of glass",), GLASSES),
}

PATTERN_WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "striped": (("striped", "stripy"), ("with stripes",)),
    "checked": (("checked", "checkered", "chequered"), ("with checks",)),
    "dotted": (("dotted", "spotted"), ("with dots",)),
}


@dataclass(frozen=True)
class Finish:
    """What a part looks like; `shade` makes it lighter or darker."""

    colour: str
    material: str
    pattern: str | None = None
    shade: float = 1.0

    def __post_init__(self) -> None:
        if self.colour not in COLOURS or self.material not in MATERIALS:
            raise MultifoldError(f"no finish in {self.colour} {self.material}; see the palette")

    @property
    def rgb(self) -> tuple[int, int, int]:
        red, green, blue = (min(255, round(value * self.shade)) for value in COLOURS[self.colour])
        return red, green, blue

    @property
    def second(self) -> tuple[int, int, int]:
        return COLOURS["white"] if sum(self.rgb) < 500 else (70, 70, 75)


def are_alike(one: str, other: str) -> bool:
    """Whether two colours are too near to tell two parts apart by them."""
    return one == other or any({one, other} == {*pair.split()} for pair in ALIKE_COLOURS)


def words_of_colour(colour: str) -> tuple[str, ...]:
    return COLOUR_WORDS.get(colour, (colour,))
