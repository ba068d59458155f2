"""A nightstand: a small case with drawers or a shelf, something on top."""

from training.data.furniture.facts import thing
from training.data.furniture.joinery import BACK, FRONT, boards, drawers, legs, panel, rear
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """The case gives the nightstand its finish."""
    width, depth, high = bench.span(0.42, 0.55), bench.span(0.36, 0.45), bench.span(0.32, 0.45)
    stand = bench.span(0.1, 0.22)
    finish = bench.finish("wood", "plastic", "metal")
    bench.begin(finish, ("nightstand", "bedside table", "night table"), "body")
    boards(bench, (width, high, depth), stand, finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    middle = stand + high / 2
    if bench.chance(0.65):
        bench.add("body", finish, box((width - 0.06, high - 0.06, depth - 0.04), (0, middle, 0)))
        drawers(
            bench, bench.pick((1, 2, 3)), width - 0.04, high - 0.04, (0, middle, depth / 2 - 0.015), finish
        )
        if bench.chance(0.5):
            panel(bench, width * 0.6, high * 0.6, (0, middle, -depth / 2 - 0.006), finish)
    else:
        _niche(bench, width, high, depth, middle, finish)
    if bench.chance(0.75):
        trinket(
            bench, (width * bench.pick((-0.2, 0.2)), stand + high, 0), 0.17, ("on top", "on it"), [finish]
        )


def _niche(bench: Workbench, width: float, high: float, depth: float, middle: float, finish: Finish) -> None:
    it = thing("niche", "niche", "compartment")
    bench.tell(it, "shape", "open", sides=FRONT)
    rear(bench, width - 0.06, high - 0.06, (0, middle, -depth / 2 + 0.01), finish, BACK)
    if bench.chance(0.5):
        trinket(bench, (0, middle - high / 2 + 0.03, 0.03), 0.18, ("inside", "in it"), [finish])
