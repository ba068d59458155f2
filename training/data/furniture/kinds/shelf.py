"""A shelf: boards between two sides, an open or closed back, things on the boards."""

from training.data.furniture.facts import counted
from training.data.furniture.joinery import THROUGH, boards, rear
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import Point, box
from training.data.furniture.trinkets import trinket

SIZES = {"narrow": 0.45, "wide": 1.2, None: 0.8}


def build(bench: Workbench) -> None:
    """The case gives the shelf its finish; the boards inside may have their own."""
    size, depth, levels = bench.pick(tuple(SIZES)), bench.span(0.28, 0.36), bench.pick((1, 2, 3, 4))
    width, high = SIZES[size] * bench.span(0.92, 1.08), (levels + 1) * bench.span(0.31, 0.37)
    finish = bench.finish("wood", "wood", "metal", "plastic")
    whole = bench.begin(finish, ("shelf", "bookshelf", "bookcase", "shelving unit"), "body")
    if size is not None:
        bench.tell(whole, "size", size)
    boards(bench, (width, high, depth), 0.0, finish)
    _levels(bench, levels, width, high, depth, finish)
    rear(bench, width - 0.06, high - 0.06, (0, high / 2, -depth / 2 + 0.012), finish, THROUGH)
    step = (high - 0.03) / (levels + 1)
    for name, level in (("bottom", 0), ("second", 1), ("highest", levels)):
        if bench.chance(0.45) and (name == "bottom" or level >= (2 if name == "highest" else 1)):
            _put(bench, name, (width * bench.span(-0.25, 0.25), level * step + 0.03, 0.02), finish)
    if bench.chance(0.35):
        trinket(bench, (0, high, 0), 0.22, ("on top of it", "on the very top"), [finish])


def _levels(bench: Workbench, levels: int, width: float, high: float, depth: float, finish: Finish) -> None:
    own = finish if bench.chance(0.5) else bench.finish("wood", "glass", "plastic", unlike=[finish])
    step = (high - 0.03) / (levels + 1)
    for level in range(1, levels + 1):
        bench.add("levels", own, box((width - 0.06, 0.03, depth - 0.04), (0, level * step + 0.015, 0.015)))
    them = counted("levels", levels, "inner board", "inner boards")
    bench.count(them, levels)
    if own != finish:
        bench.look(them, own)


def _put(bench: Workbench, name: str, at: Point, finish: Finish) -> None:
    words = {
        "bottom": ("at the bottom", "in the lowest compartment"),
        "second": ("in the second compartment from below",),
        "highest": ("in the highest compartment",),
    }[name]
    trinket(bench, at, 0.2, words, [finish])
