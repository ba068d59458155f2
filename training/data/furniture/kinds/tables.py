"""Tables and desks."""

from training.data.furniture.modeling.facts import subject
from training.data.furniture.modeling.joinery import BACK, Facing, drawers, rear, support
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import box, disc, rod
from training.data.furniture.modeling.trinkets import trinket


def build_desk(bench: Workbench) -> None:
    """The top gives the desk its finish; its front is where one sits."""
    width, depth, height = bench.span(1.1, 1.5), bench.span(0.55, 0.7), bench.span(0.7, 0.78)
    finish = bench.finish("wood", "wood", "plastic", "metal")
    alike = bench.chance(0.6)
    bench.begin(finish, ("desk", "writing desk"), "top", "block", uniform=alike)
    if not alike:
        bench.look(subject("top", "top", "desktop"), finish)
    bench.add("top", finish, box((width, 0.05, depth), (0, height, 0)))
    sign = bench.pick((-1, 1))
    body = finish if alike else bench.finish("wood", "metal", "plastic", unlike=[finish])
    x = sign * (width / 2 - 0.22)
    high = height - 0.1
    count = bench.pick((2, 3, 4))
    bench.add("block", body, box((0.4, high, depth - 0.06), (x, 0.08 + high / 2, 0)))
    them = drawers(bench, count, (0.38, high - 0.02), (x, 0.08 + high / 2, depth / 2 - 0.03), body)
    side = "left" if sign < 0 else "right"
    bench.tell(them, "place", f"on the {side}", f"on the {side} side")
    own = bench.finish("metal", "wood", unlike=[finish])
    x = -sign * (width / 2 - 0.06)
    for z in (-depth / 2 + 0.07, depth / 2 - 0.07):
        bench.add("legs", own, rod((x, height, z), (x, 0, z), 0.035, sides=4))
    bench.group("legs", 2, own, "leg")
    rear(bench, width - 0.06, height * 0.6, (0, height * 0.66, -depth / 2 + 0.03), body, BACK)
    if bench.chance(0.75):
        side, x = bench.pick((("left", -width * 0.35), ("right", width * 0.35)))
        words = (f"on the {side} of the top", f"on top, to the {side}")
        trinket(bench, (x, height + 0.025, 0), 0.24, words, [finish])


TABLE_HEIGHTS = ((0.4, ("low",)), (1.05, ("high", "tall")), (0.74, ()))


def build_table(bench: Workbench) -> None:
    height, words = bench.pick(TABLE_HEIGHTS)
    height += bench.span(-0.03, 0.03)
    finish = bench.finish("wood", "wood", "glass", "marble", "plastic")
    whole = bench.begin(finish, ("table",), "top")
    bench.tell(whole, "size", *words)
    shape, width, depth = _table_top(bench, height, finish)
    own = bench.finish("wood", "metal", "plastic", unlike=[finish])
    support(bench, width, depth, height - 0.02, own, *(("four",) if shape == "long" else ()))
    if shape != "round" and bench.chance(0.35):
        side: Facing = bench.pick(("front", "back"))
        bench.add("frame", own, box((0.5, 0.13, depth - 0.1), (0, height - 0.09, 0)))
        z = depth / 2 - 0.05 if side == "front" else 0.05 - depth / 2
        drawers(bench, 1, (0.46, 0.12), (0, height - 0.09, z), own, side)
    if bench.chance(0.6):
        trinket(bench, (width * 0.12, height + 0.025, 0.0), 0.22, ("on top", "on it"), [finish])
    if bench.chance(0.3):
        trinket(bench, (-width * 0.3, 0, 0.05), 0.26, ("underneath", "under it"))


def _table_top(bench: Workbench, height: float, finish: Finish) -> tuple[str, float, float]:
    """Build the top; its shape, and how far apart legs may stand."""
    shape = bench.pick(("round", "square", "long"))
    wide = bench.span(0.75, 1.0)
    words = (shape, "rectangular") if shape == "long" else (shape,)
    bench.tell(subject("top", "top", "tabletop"), "shape", *words)
    if shape == "round":
        bench.add("top", finish, disc(wide / 2, 0.05, (0, height, 0), 32))
        return shape, wide * 0.68, wide * 0.68
    width, depth = (wide * 1.7, wide * 0.8) if shape == "long" else (wide, wide)
    bench.add("top", finish, box((width, 0.05, depth), (0, height, 0)))
    return shape, width * 0.92, depth * 0.92
