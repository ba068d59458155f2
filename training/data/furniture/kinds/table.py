"""A table: a top on legs or a pedestal."""

from training.data.furniture.facts import thing
from training.data.furniture.joinery import Facing, drawers, support
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box, disc
from training.data.furniture.trinkets import trinket

HEIGHTS = {"low": 0.4, "high": 1.05, None: 0.74}


def build(bench: Workbench) -> None:
    """The top gives the table its finish."""
    size = bench.pick(tuple(HEIGHTS))
    height = HEIGHTS[size] + bench.span(-0.03, 0.03)
    finish = bench.finish("wood", "wood", "glass", "marble", "plastic")
    whole = bench.begin(finish, ("table",), "top")
    if size is not None:
        bench.tell(whole, "size", size, *{"high": ("high", "tall"), "low": ("low",)}[size])
    shape, width, depth = _top(bench, height, finish)
    own = bench.finish("wood", "metal", "plastic", unlike=[finish])
    support(bench, width, depth, height - 0.02, own, *(("four",) if shape == "long" else ()))
    if shape != "round" and bench.chance(0.35):
        side: Facing = bench.pick(("front", "back"))
        bench.add("frame", own, box((0.5, 0.13, depth - 0.1), (0, height - 0.09, 0)))
        drawers(
            bench,
            1,
            0.46,
            0.12,
            (0, height - 0.09, (depth / 2 - 0.05) * (1 if side == "front" else -1)),
            own,
            side,
        )
    _trinkets(bench, width, height, finish)


def _top(bench: Workbench, height: float, finish: Finish) -> tuple[str, float, float]:
    """Build the top; its shape, and how far apart legs may stand."""
    shape, wide = bench.pick(("round", "square", "long")), bench.span(0.75, 1.0)
    bench.tell(
        thing("top", "top", "tabletop"),
        "shape",
        shape,
        *{"long": ("long", "rectangular")}.get(shape, (shape,)),
    )
    if shape == "round":
        bench.add("top", finish, disc(wide / 2, 0.05, (0, height, 0), 32))
        return shape, wide * 0.68, wide * 0.68
    width, depth = (wide * 1.7, wide * 0.8) if shape == "long" else (wide, wide)
    bench.add("top", finish, box((width, 0.05, depth), (0, height, 0)))
    return shape, width * 0.92, depth * 0.92


def _trinkets(bench: Workbench, width: float, height: float, finish: Finish) -> None:
    if bench.chance(0.6):
        trinket(bench, (width * 0.12, height + 0.025, 0.0), 0.22, ("on top", "on it"), [finish])
    if bench.chance(0.3):
        trinket(bench, (-width * 0.3, 0, 0.05), 0.26, ("underneath", "under it"))
