"""A chair: seat, back, legs, perhaps armrests."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.joinery import panel, support
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box, cushion, rod
from training.data.furniture.trinkets import trinket

HEIGHTS = {"high": 0.8, "low": 0.32, None: 0.55}


def build(bench: Workbench) -> None:
    """Seat and back mostly share a finish, which is then that of the chair."""
    width, depth, seat = bench.span(0.42, 0.56), bench.span(0.42, 0.52), bench.span(0.4, 0.5)
    way = bench.pick(("solid", "slatted", "ladder"))
    finish = bench.finish("wood", "plastic", "fabric", "leather", patterned=0.4 if way == "solid" else 0.0)
    alike = bench.chance(0.7)
    bench.begin(finish, ("chair",), "seat", "back", told=alike)
    soft = finish.material in ("fabric", "leather")
    bench.add("seat", finish, (cushion if soft else box)((width, 0.1 if soft else 0.05, depth), (0, seat, 0)))
    back = finish if alike else bench.finish("wood", "plastic", "fabric", unlike=[finish])
    if not alike:
        bench.look(thing("seat"), finish)
        bench.look(thing("back", "back", "backrest"), back)
    _back(bench, way, width, depth, seat, back)
    support(bench, width, depth, seat - 0.02, bench.finish("wood", "metal", "plastic", unlike=[finish]))
    armed = bench.chance(0.4) and _arms(bench, width, depth, seat, finish)
    if way == "solid" and bench.chance(0.35):
        panel(bench, width * 0.6, 0.2, (0, seat + 0.2, -depth / 2 - 0.006), back)
    _extras(bench, width, seat, finish, armed)


def _back(bench: Workbench, way: str, width: float, depth: float, seat: float, finish: Finish) -> None:
    height = bench.pick(tuple(HEIGHTS))
    high, z = HEIGHTS[height], -depth / 2 + 0.025
    it = thing("back", "back", "backrest")
    bench.tell(it, "shape", way, *{"ladder": ("ladder", "rung")}.get(way, (way,)))
    if height is not None:
        bench.tell(it, "size", height, *{"high": ("high", "tall"), "low": ("low", "short")}[height])
    if way == "solid":
        bench.add("back", finish, box((width, high, 0.05), (0, seat + high / 2, z)))
        return
    for x in (-width / 2 + 0.025, width / 2 - 0.025):
        bench.add("back", finish, box((0.05, high, 0.04), (x, seat + high / 2, z)))
    if way == "ladder":
        levels = [seat + high * part for part in (0.3, 0.62, 0.94)]
        bench.add("back", finish, *(box((width - 0.1, 0.07, 0.025), (0, y, z)) for y in levels))
        return
    bench.add("back", finish, box((width, 0.07, 0.04), (0, seat + high, z)))
    places = [width * part for part in (-0.27, -0.09, 0.09, 0.27)]
    bench.add("back", finish, *(box((0.035, high, 0.02), (x, seat + high / 2, z)) for x in places))


def _arms(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> bool:
    own = bench.finish("wood", "metal", "plastic", unlike=[finish])
    for x in (-width / 2 - 0.03, width / 2 + 0.03):
        bench.add("armrests", own, box((0.06, 0.04, depth), (x, seat + 0.24, 0)))
        bench.add("posts", own, rod((x, seat - 0.03, depth * 0.35), (x, seat + 0.23, depth * 0.35), 0.02))
        bench.add("posts", own, rod((x, seat - 0.03, -depth * 0.35), (x, seat + 0.23, -depth * 0.35), 0.02))
    arms = counted("armrests", 2, "armrest", "armrests")
    bench.count(arms, 2)
    bench.look(arms, own)
    return True


def _extras(bench: Workbench, width: float, seat: float, finish: Finish, armed: bool) -> None:
    if not armed:
        bench.absent(thing("armrests", "armrests", "arms", plural=True))
    if armed and bench.chance(0.6):
        side, x = bench.pick((("left", -width / 2 - 0.03), ("right", width / 2 + 0.03)))
        trinket(bench, (x, seat + 0.26, 0.08), 0.15, (f"on the {side} arm", f"on the {side} armrest"))
    elif bench.chance(0.35):
        trinket(bench, (0, seat + 0.05, 0.03), 0.2, ("on the seat",), [finish])
    elif bench.chance(0.3):
        trinket(bench, (0, 0, 0.32), 0.2, ("in front of it", "at its feet"))
