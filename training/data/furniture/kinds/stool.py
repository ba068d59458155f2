"""A stool: a seat without a back, on legs or a pedestal, sometimes tall."""

from training.data.furniture.facts import thing
from training.data.furniture.joinery import support
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box, cushion, disc, moved, ring
from training.data.furniture.trinkets import trinket

HEIGHTS = {"tall": 0.78, "low": 0.3, None: 0.5}


def build(bench: Workbench) -> None:
    """The seat gives the stool its finish."""
    width, size = bench.span(0.34, 0.44), bench.pick(tuple(HEIGHTS))
    height = HEIGHTS[size] + bench.span(-0.03, 0.03)
    finish = bench.finish("wood", "plastic", "leather", "fabric", "metal")
    whole = bench.begin(finish, ("stool",), "seat")
    if size is not None:
        bench.tell(whole, "size", size, *{"tall": ("tall", "high"), "low": ("low", "short")}[size])
    _seat(bench, width, height, finish)
    bench.absent(thing("back", "back", "backrest"))
    support(bench, width * 0.8, width * 0.8, height - 0.02, bench.finish("wood", "metal", unlike=[finish]))
    if size == "tall" and bench.chance(0.6):
        hoop = bench.finish("metal", unlike=[finish])
        bench.add("footrest", hoop, moved(ring(width * 0.42, 0.03, 0.03), (0, 0.28, 0)))
        bench.look(thing("footrest", "footrest", "foot ring"), hoop)
    if bench.chance(0.4):
        trinket(bench, (0, height + 0.05, 0), 0.18, ("on top", "on the seat"), [finish])
    elif bench.chance(0.4):
        trinket(bench, (width * 0.9, 0, 0), 0.2, ("on the right", "at its right side"))


def _seat(bench: Workbench, width: float, height: float, finish: Finish) -> None:
    shape = bench.pick(("round", "square"))
    bench.tell(thing("seat", "seat", "top"), "shape", shape)
    if shape == "round":
        bench.add("seat", finish, disc(width / 2, 0.07, (0, height, 0)))
    else:
        make = cushion if finish.material in ("leather", "fabric") else box
        bench.add("seat", finish, make((width, 0.09, width), (0, height, 0)))
