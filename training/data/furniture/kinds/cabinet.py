"""A cabinet: a wide case with doors, a drawer on one side perhaps, something on top."""

from training.data.furniture.joinery import BACK, Facing, boards, doors, drawers, legs, panel, rear
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box
from training.data.furniture.trinkets import trinket

SIZES = {"low": (1.2, 0.5), "tall": (0.7, 1.15), None: (0.95, 0.8)}


def build(bench: Workbench) -> None:
    """The case gives the cabinet its finish."""
    size, depth, stand = bench.pick(tuple(SIZES)), bench.span(0.4, 0.5), bench.span(0.1, 0.25)
    width, high = (length * bench.span(0.92, 1.08) for length in SIZES[size])
    finish = bench.finish("wood", "wood", "metal", "plastic")
    whole = bench.begin(finish, ("cabinet", "cupboard"), "body")
    if size is not None:
        bench.tell(whole, "size", size, *{"tall": ("tall", "high"), "low": ("low", "squat")}[size])
    boards(bench, (width, high, depth), stand, finish)
    middle = stand + high / 2
    bench.add("body", finish, box((width - 0.06, high - 0.06, 0.02), (0, middle, depth / 2 - 0.03)))
    number = bench.pick((1, 2)) if width < 0.8 else bench.pick((2, 3, 4))
    doors(bench, number, width - 0.03, high - 0.03, (0, middle, depth / 2 - 0.02), finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    _extras(bench, width, high, depth, middle, finish)


def _extras(bench: Workbench, width: float, high: float, depth: float, middle: float, finish: Finish) -> None:
    if bench.chance(0.6):
        rear(bench, width - 0.06, high - 0.06, (0, middle, -depth / 2 + 0.01), finish, BACK)
    else:
        bench.add("body", finish, box((width - 0.06, high - 0.06, 0.02), (0, middle, -depth / 2 + 0.02)))
        panel(bench, width * 0.5, high * 0.5, (0, middle, -depth / 2), finish)
    if bench.chance(0.4):
        side: Facing = bench.pick(("left", "right"))
        if all(part.name != "drawers" for part in bench.parts):
            x = -width / 2 if side == "left" else width / 2
            drawers(bench, bench.pick((1, 2)), depth * 0.8, high * 0.55, (x, middle, 0), finish, side)
    if bench.chance(0.6):
        where, x = bench.pick((("left", -width * 0.3), ("right", width * 0.3)))
        words = (f"on top, on the {where}", f"on top at the {where}")
        trinket(bench, (x, middle + high / 2, 0), 0.24, words, [finish])
