"""A vase: a turned body, perhaps with handles, flowers, a band, a spot on one side."""

import numpy as np

from training.data.furniture.facts import colour, counted, thing
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import ball, lathe, moved, ring, rod, turned

# Radius over height at nine even steps from the foot to the lip.
SHAPES = {
    "round": (0.16, 0.3, 0.38, 0.4, 0.37, 0.28, 0.17, 0.13, 0.17),
    "slender": (0.11, 0.13, 0.15, 0.16, 0.15, 0.12, 0.09, 0.075, 0.09),
    "flared": (0.12, 0.1, 0.1, 0.11, 0.13, 0.16, 0.2, 0.26, 0.33),
    "straight": (0.2, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21),
}
WORDS = {
    "round": ("round", "bulbous"),
    "slender": ("slender", "slim"),
    "flared": ("flared", "trumpet-shaped"),
}


def build(bench: Workbench) -> None:
    """The body gives the vase its finish."""
    height, shape = bench.span(0.32, 0.5), bench.pick(tuple(SHAPES))
    finish = bench.finish("ceramic", "ceramic", "glass", "metal", "marble", patterned=0.5)
    whole = bench.begin(finish, ("vase",), "body")
    bench.tell(whole, "shape", shape, *WORDS.get(shape, ("straight", "cylindrical")))
    radii = [radius * height for radius in SHAPES[shape]]
    side = list(zip(radii, (float(level) for level in np.linspace(0, height, 9)), strict=True))
    inside = [(radii[-1] * 0.88, height), (radii[-1] * 0.8, height * 0.75), (0.0, height * 0.7)]
    bench.add("body", finish, lathe([(0.0, 0.0), *side, *inside], 24))
    _handles(bench, radii, height, finish)
    if bench.chance(0.55):
        _flowers(bench, height, finish)
    if bench.chance(0.4):
        _band(bench, radii, height, finish)
    if bench.chance(0.5):
        _spot(bench, radii, height, finish)


def _handles(bench: Workbench, radii: list[float], height: float, finish: Finish) -> None:
    count = bench.pick((0, 1, 2, 2))
    if count == 0:
        bench.absent(thing("handles", "handles", plural=True))
        return
    own = finish if bench.chance(0.5) else bench.finish("ceramic", "metal", unlike=[finish], patterned=0.0)
    signs = bench.pick(((-1,), (1,))) if count == 1 else (-1, 1)
    hoop = turned(ring(height * 0.17, height * 0.045, height * 0.05, 16), "x", 90)
    for sign in signs:
        bench.add("handles", own, moved(hoop, (sign * (radii[5] + height * 0.08), height * 0.62, 0)))
    them = counted("handles", count, "handle", "handles")
    bench.count(them, count)
    bench.look(them, own)
    if count == 1:
        side = "left" if signs[0] < 0 else "right"
        bench.tell(them, "place", f"on the {side}", f"on the {side}", f"on the {side} side")


def _flowers(bench: Workbench, height: float, finish: Finish) -> None:
    count, own = bench.pick((1, 2, 3)), bench.finish("plastic", unlike=[finish])
    stem = Finish("green", "plastic")
    for index in range(count):
        angle = 2 * np.pi * index / count + 0.5
        lean = 0.0 if count == 1 else height * 0.25
        head = (lean * float(np.sin(angle)), height * (1.3 - 0.1 * index), lean * float(np.cos(angle)))
        bench.add("stems", stem, rod((0, height * 0.72, 0), head, height * 0.02, sides=6))
        bench.add("flowers", own, ball(height * 0.15, head, 10))
    them = counted("flowers", count, "flower", "flowers")
    bench.count(them, count)
    bench.facts.append(colour(them, own.colour))


def _band(bench: Workbench, radii: list[float], height: float, finish: Finish) -> None:
    own, wide = bench.finish("ceramic", unlike=[finish], patterned=0.0), radii[2] * 1.03
    low, high = (radii[1] * 1.04, height / 8), (radii[3] * 1.04, height * 3 / 8)
    bench.add("band", own, lathe([(0, low[1]), low, (wide * 1.01, height / 4), high, (0, high[1])], 24))
    it = thing("band", "band", "belt")
    bench.facts.append(colour(it, own.colour))
    bench.count(it, 1)


def _spot(bench: Workbench, radii: list[float], height: float, finish: Finish) -> None:
    own = bench.finish("plastic", unlike=[finish])
    side, sign = bench.pick((("front", 1), ("back", -1)))
    bulge = ball(height * 0.12, (0, 0, 0), 12)
    bench.add("spot", own, moved(bulge, (0, height * 0.5, sign * (radii[4] - height * 0.06))))
    it = thing("spot", "spot", "knob")
    bench.facts.append(colour(it, own.colour))
    bench.tell(it, "place", f"on the {side}", f"on the {side}", f"on its {side}")
