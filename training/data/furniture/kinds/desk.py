"""A desk: a top on legs, a block of drawers on one side, an open or closed back."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.joinery import BACK, drawers, rear
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box, rod
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """The top gives the desk its finish; its front is where one sits."""
    width, depth, height = bench.span(1.1, 1.5), bench.span(0.55, 0.7), bench.span(0.7, 0.78)
    finish = bench.finish("wood", "wood", "plastic", "metal")
    alike = bench.chance(0.6)
    bench.begin(finish, ("desk", "writing desk"), "top", "block", told=alike)
    if not alike:
        bench.look(thing("top", "top", "desktop"), finish)
    bench.add("top", finish, box((width, 0.05, depth), (0, height, 0)))
    sign = bench.pick((-1, 1))
    body = finish if alike else bench.finish("wood", "metal", "plastic", unlike=[finish])
    _block(bench, width, depth, height, sign, body)
    _legs(bench, width, depth, height, sign, finish)
    rear(bench, width - 0.06, height * 0.6, (0, height * 0.66, -depth / 2 + 0.03), body, BACK)
    if bench.chance(0.75):
        side, x = bench.pick((("left", -width * 0.35), ("right", width * 0.35)))
        words = (f"on the {side} of the top", f"on top, to the {side}")
        trinket(bench, (x, height + 0.025, 0), 0.24, words, [finish])


def _block(bench: Workbench, width: float, depth: float, height: float, sign: int, body: Finish) -> None:
    """The block with drawers, on the left or the right."""
    x, high, count = sign * (width / 2 - 0.22), height - 0.1, bench.pick((2, 3, 4))
    bench.add("block", body, box((0.4, high, depth - 0.06), (x, 0.08 + high / 2, 0)))
    drawers(bench, count, 0.38, high - 0.02, (x, 0.08 + high / 2, depth / 2 - 0.03), body)
    side = "left" if sign < 0 else "right"
    them = counted("drawers", count, "drawer", "drawers")
    words = (f"on the {side}", f"on the {side} side")
    bench.tell(them, "place", words[0], *words)


def _legs(bench: Workbench, width: float, depth: float, height: float, sign: int, finish: Finish) -> None:
    own, x = bench.finish("metal", "wood", unlike=[finish]), -sign * (width / 2 - 0.06)
    for z in (-depth / 2 + 0.07, depth / 2 - 0.07):
        bench.add("legs", own, rod((x, height, z), (x, 0, z), 0.035, sides=4))
    them = counted("legs", 2, "leg", "legs")
    bench.count(them, 2)
    bench.look(them, own)
