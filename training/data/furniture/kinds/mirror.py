"""A standing mirror: a framed pane on two feet, a back of its own colour, perhaps a shelf below the pane."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import Mesh, box, disc, moved, rod, stretched, turned
from training.data.furniture.trinkets import trinket

HEIGHTS = {"tall": 1.6, "small": 0.8, None: 1.15}


def build(bench: Workbench) -> None:
    """The frame gives the mirror its finish."""
    size, shape = bench.pick(tuple(HEIGHTS)), bench.pick(("round", "oval", "rectangular"))
    width = bench.span(0.55, 0.7)
    high = width if shape == "round" else HEIGHTS[size] * 0.8
    finish = bench.finish("wood", "metal", "plastic")
    whole = bench.begin(finish, ("mirror", "standing mirror"), "frame")
    bench.tell(whole, "shape", shape)
    if shape != "round" and size is not None:
        bench.tell(whole, "size", size, *{"tall": ("tall", "high"), "small": ("small", "low")}[size])
    centre = high / 2 + 0.25
    bench.add("frame", finish, moved(_plate(shape, width, high, 0.05), (0, centre, 0)))
    _pane(bench, shape, width, high, centre, finish)
    _back(bench, shape, width, high, centre, finish)
    _feet(bench, width, centre, finish)
    if bench.chance(0.6):
        _ledge(bench, width, finish)


def _plate(shape: str, width: float, high: float, thick: float) -> Mesh:
    """An upright plate about the origin."""
    if shape == "rectangular":
        return box((width, high, thick))
    return stretched(turned(disc(width / 2, thick, segments=32), "x", 90), (1, high / width, 1))


def _pane(bench: Workbench, shape: str, width: float, high: float, centre: float, finish: Finish) -> None:
    own = bench.finish("glass", unlike=[finish])
    plate = _plate(shape, width - 0.14, high - 0.14, 0.01)
    bench.add("pane", own, moved(plate, (0, centre, 0.026)))
    bench.look(thing("pane", "pane", "reflecting pane"), own)


def _back(bench: Workbench, shape: str, width: float, high: float, centre: float, finish: Finish) -> None:
    own = bench.finish("wood", "plastic", "fabric", unlike=[finish])
    plate = _plate(shape, width - 0.08, high - 0.08, 0.01)
    bench.add("back", own, moved(plate, (0, centre, -0.026)))
    bench.look(thing("back", "back", "rear"), own)


def _feet(bench: Workbench, width: float, centre: float, finish: Finish) -> None:
    own = bench.finish("wood", "metal", unlike=[finish])
    for x in (-width / 2 - 0.04, width / 2 + 0.04):
        bench.add(
            "posts", own, rod((x, 0.02, 0), (x, centre, 0), 0.028), box((0.06, 0.05, 0.4), (x, 0.025, 0))
        )
    bench.add("bar", own, rod((-width / 2 - 0.04, 0.14, 0), (width / 2 + 0.04, 0.14, 0), 0.02))
    bench.look(thing("stand", "stand", "foot", parts=("posts", "bar")), own)


def _ledge(bench: Workbench, width: float, finish: Finish) -> None:
    own = bench.finish("wood", "plastic", "glass", unlike=[finish])
    bench.add("ledge", own, box((width, 0.03, 0.3), (0, 0.17, 0.05)))
    it = counted("ledge", 1, "ledge", "ledges")
    bench.look(it, own)
    if bench.chance(0.7):
        side, x = bench.pick((("left", -width * 0.3), ("right", width * 0.3)))
        words = (f"on the {side} of the ledge", f"on the ledge, to the {side}")
        trinket(bench, (x, 0.185, 0.1), 0.2, words, [own])
