"""A sofa: two or three seats between two arms, with pillows, on low feet."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.joinery import panel
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box, cushion, moved, rod, turned
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """Frame, arms and back share the finish of the sofa; seat cushions and pillows may differ."""
    seats, depth = bench.pick((2, 3)), bench.span(0.8, 0.95)
    width = seats * bench.span(0.6, 0.7) + 0.4
    high = bench.span(0.42, 0.6)
    finish = bench.finish("fabric", "leather", patterned=0.4)
    bench.begin(finish, ("sofa", "couch", "settee"), "frame", "back", "arms")
    bench.add("frame", finish, box((width - 0.1, 0.2, depth - 0.1), (0, 0.24, 0)))
    bench.add("back", finish, cushion((width, high + 0.2, 0.22), (0, 0.25 + high / 2, -depth / 2 + 0.11)))
    for x in (-width / 2 + 0.09, width / 2 - 0.09):
        bench.add("arms", finish, cushion((0.2, 0.46, depth), (x, 0.4, 0)))
    _seats(bench, seats, width, depth, finish)
    _feet(bench, width, depth, finish)
    if bench.chance(0.5):
        _pillow(bench, width, depth, finish)
    if bench.chance(0.35):
        panel(bench, width * 0.4, high * 0.6, (0, 0.27 + high / 2, -depth / 2 - 0.006), finish)
    if bench.chance(0.5):
        side, x = bench.pick((("left", -width / 2 + 0.09), ("right", width / 2 - 0.09)))
        trinket(bench, (x, 0.63, 0.12), 0.26, (f"on the {side} arm", f"on the {side} armrest"), [finish])


def _seats(bench: Workbench, seats: int, width: float, depth: float, finish: Finish) -> None:
    own = finish if bench.chance(0.5) else bench.finish("fabric", "leather", unlike=[finish], patterned=0.1)
    each = (width - 0.4) / seats
    for index in range(seats):
        x = (index - (seats - 1) / 2) * each
        bench.add("seats", own, cushion((each - 0.02, 0.18, depth - 0.2), (x, 0.42, 0.09), 0.6))
    them = counted("seats", seats, "seat cushion", "seat cushions")
    bench.count(them, seats)
    if own != finish:
        bench.look(them, own)


def _feet(bench: Workbench, width: float, depth: float, finish: Finish) -> None:
    own = bench.finish("wood", "metal", unlike=[finish])
    for x in (-width / 2 + 0.1, width / 2 - 0.1):
        for z in (-depth / 2 + 0.1, depth / 2 - 0.1):
            bench.add("legs", own, rod((x, 0.2, z), (x, 0, z), 0.045, 0.035))
    feet = counted("legs", 4, "leg", "legs")
    bench.look(feet, own)


def _pillow(bench: Workbench, width: float, depth: float, finish: Finish) -> None:
    own = bench.finish("fabric", unlike=[finish], patterned=0.4)
    side, x = bench.pick((("left", -width / 2 + 0.42), ("right", width / 2 - 0.42)))
    soft = turned(cushion((0.42, 0.42, 0.16), rounding=0.9), "x", -18)
    bench.add("pillow", own, moved(soft, (x, 0.68, -depth / 2 + 0.33)))
    it = thing("pillow", "pillow", "throw pillow")
    bench.look(it, own, made=False)
    place = (f"on the {side}", f"on the {side} side")
    bench.tell(it, "place", place[0], *place)
