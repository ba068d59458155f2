"""Furniture to sit on: armchair, bench, chair, sofa and stool."""

from training.data.furniture.modeling.facts import counted_subject, subject
from training.data.furniture.modeling.joinery import feet, legs, panel, support
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import box, cushion, disc, move, ring, rod, turn
from training.data.furniture.modeling.trinkets import trinket


def build_armchair(bench: Workbench) -> None:
    """Everything soft shares one finish; the arms may have their own."""
    width, depth, high = bench.span(0.75, 0.95), bench.span(0.7, 0.85), bench.span(0.45, 0.7)
    finish = bench.finish("fabric", "leather", "fabric", patterned=0.4)
    bench.begin(finish, ("armchair", "easy chair"), "seat", "back")
    bench.add("seat", finish, cushion((width - 0.2, 0.3, depth), (0, 0.3, 0)))
    bench.add("back", finish, cushion((width, high, 0.22), (0, 0.3 + high / 2, -depth / 2 + 0.08)))
    if high > 0.6:
        bench.tell(subject("back", "back", "backrest"), "size", "high", "tall")
    arms = finish if bench.chance(0.5) else bench.finish("fabric", "wood", "leather", unlike=[finish])
    for x in (-width / 2, width / 2):
        bench.add("armrests", arms, cushion((0.18, 0.46, depth), (x, 0.39, 0)))
    bench.look(counted_subject("armrests", 2, "armrest"), arms)
    them = feet(bench, width / 2 - 0.06, depth / 2 - 0.07, finish, 0.04, 0.025)
    bench.tell(them, "size", "short")
    if bench.chance(0.4):
        panel(bench, width * 0.6, high * 0.5, (0, 0.3 + high / 2, -depth / 2 - 0.035), finish)
    if bench.chance(0.55):
        side, x = bench.pick((("left", -width / 2), ("right", width / 2)))
        trinket(bench, (x, 0.62, 0.1), 0.2, (f"on the {side} arm", f"on the {side} armrest"), [arms])
    if bench.chance(0.45):
        own = bench.finish("fabric", unlike=[finish], patterned=0.4)
        soft = turn(cushion((0.36, 0.34, 0.12), rounding=0.9), "x", -20)
        bench.add("pillow", own, move(soft, (0, 0.62, -depth / 2 + 0.27)))
        bench.look(subject("pillow", "pillow", "cushion"), own, material=False)


def build_bench(bench: Workbench) -> None:
    width, depth, seat = bench.span(1.1, 1.7), bench.span(0.38, 0.48), bench.span(0.4, 0.48)
    finish = bench.finish("wood", "wood", "metal", "marble", "plastic")
    bench.begin(finish, ("bench",), "seat", "back")
    _bench_seat(bench, width, depth, seat, finish)
    own = bench.finish("wood", "metal", "marble", unlike=[finish])
    if bench.chance(0.5):
        legs(bench, width, depth, seat - 0.02, own)
    else:
        for x in (-width * 0.4, width * 0.4):
            bench.add("supports", own, box((0.07, seat - 0.02, depth * 0.9), (x, seat / 2 - 0.01, 0)))
        bench.group("supports", 2, own, "support")
    if bench.chance(0.5):
        _bench_back(bench, width, depth, seat, finish)
    else:
        bench.absent(subject("back", "back", "backrest"))
    if bench.chance(0.65):
        side, x = bench.pick((("left", -width * 0.36), ("right", width * 0.36)))
        trinket(bench, (x, seat + 0.03, 0.02), 0.24, (f"on the {side} end", f"on its {side} end"), [finish])
    elif bench.chance(0.7):
        trinket(bench, (0, 0, 0), 0.25, ("underneath", "under it"))


def _bench_seat(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> None:
    way = bench.pick(("solid", "slatted"))
    bench.tell(subject("seat"), "shape", way)
    if way == "solid":
        bench.add("seat", finish, box((width, 0.06, depth), (0, seat, 0)))
        return
    places = [depth * part for part in (-0.39, -0.13, 0.13, 0.39)]
    bench.add("seat", finish, *(box((width, 0.05, depth * 0.16), (0, seat, z)) for z in places))


def _bench_back(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> None:
    it = subject("back", "back", "backrest")
    z = -depth / 2 + 0.02
    way = bench.pick(("solid", "slatted"))
    bench.tell(it, "shape", way)
    if way == "solid":
        bench.add("back", finish, box((width, 0.45, 0.04), (0, seat + 0.225, z)))
        if bench.chance(0.5):
            panel(bench, width * 0.4, 0.25, (0, seat + 0.25, z - 0.026), finish)
        return
    bench.add("back", finish, box((width, 0.08, 0.04), (0, seat + 0.45, z)))
    places = [width * (index - 4) / 8.4 for index in range(9)]
    bench.add("back", finish, *(box((0.045, 0.42, 0.03), (x, seat + 0.21, z)) for x in places))


CHAIR_HEIGHTS = ((0.8, ("high", "tall")), (0.32, ("low", "short")), (0.55, ()))


def build_chair(bench: Workbench) -> None:
    """Seat and back mostly share a finish, which is then that of the chair."""
    width, depth, seat = bench.span(0.42, 0.56), bench.span(0.42, 0.52), bench.span(0.4, 0.5)
    way = bench.pick(("solid", "slatted", "ladder"))
    finish = bench.finish("wood", "plastic", "fabric", "leather", patterned=0.4 if way == "solid" else 0.0)
    alike = bench.chance(0.7)
    bench.begin(finish, ("chair",), "seat", "back", uniform=alike)
    soft = finish.material in ("fabric", "leather")
    bench.add("seat", finish, (cushion if soft else box)((width, 0.1 if soft else 0.05, depth), (0, seat, 0)))
    back = finish if alike else bench.finish("wood", "plastic", "fabric", unlike=[finish])
    if not alike:
        bench.look(subject("seat"), finish)
        bench.look(subject("back", "back", "backrest"), back)
    _chair_back(bench, way, width, depth, seat, back)
    support(bench, width, depth, seat - 0.02, bench.finish("wood", "metal", "plastic", unlike=[finish]))
    armed = bench.chance(0.4) and _chair_arms(bench, width, depth, seat, finish)
    if way == "solid" and bench.chance(0.35):
        panel(bench, width * 0.6, 0.2, (0, seat + 0.2, -depth / 2 - 0.006), back)
    if not armed:
        bench.absent(subject("armrests", "armrests", "arms", plural=True))
    if armed and bench.chance(0.6):
        side, x = bench.pick((("left", -width / 2 - 0.03), ("right", width / 2 + 0.03)))
        trinket(bench, (x, seat + 0.26, 0.08), 0.15, (f"on the {side} arm", f"on the {side} armrest"))
    elif bench.chance(0.35):
        trinket(bench, (0, seat + 0.05, 0.03), 0.2, ("on the seat",), [finish])
    elif bench.chance(0.3):
        trinket(bench, (0, 0, 0.32), 0.2, ("in front of it", "at its feet"))


def _chair_back(bench: Workbench, way: str, width: float, depth: float, seat: float, finish: Finish) -> None:
    high, words = bench.pick(CHAIR_HEIGHTS)
    it = subject("back", "back", "backrest")
    z = -depth / 2 + 0.025
    bench.tell(it, "shape", *{"ladder": ("ladder", "rung")}.get(way, (way,)))
    bench.tell(it, "size", *words)
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


def _chair_arms(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> bool:
    own = bench.finish("wood", "metal", "plastic", unlike=[finish])
    for x in (-width / 2 - 0.03, width / 2 + 0.03):
        bench.add("armrests", own, box((0.06, 0.04, depth), (x, seat + 0.24, 0)))
        for z in (depth * 0.35, -depth * 0.35):
            bench.add("posts", own, rod((x, seat - 0.03, z), (x, seat + 0.23, z), 0.02))
    bench.group("armrests", 2, own, "armrest")
    return True


def build_sofa(bench: Workbench) -> None:
    """Frame, arms and back share the finish of the sofa; seat cushions and pillows may differ."""
    seats = bench.pick((2, 3))
    depth = bench.span(0.8, 0.95)
    width = seats * bench.span(0.6, 0.7) + 0.4
    high = bench.span(0.42, 0.6)
    finish = bench.finish("fabric", "leather", patterned=0.4)
    bench.begin(finish, ("sofa", "couch", "settee"), "frame", "back", "arms")
    bench.add("frame", finish, box((width - 0.1, 0.2, depth - 0.1), (0, 0.24, 0)))
    bench.add("back", finish, cushion((width, high + 0.2, 0.22), (0, 0.25 + high / 2, -depth / 2 + 0.11)))
    for x in (-width / 2 + 0.09, width / 2 - 0.09):
        bench.add("arms", finish, cushion((0.2, 0.46, depth), (x, 0.4, 0)))
    own = finish if bench.chance(0.5) else bench.finish("fabric", "leather", unlike=[finish], patterned=0.1)
    each = (width - 0.4) / seats
    for index in range(seats):
        x = (index - (seats - 1) / 2) * each
        bench.add("seats", own, cushion((each - 0.02, 0.18, depth - 0.2), (x, 0.42, 0.09), 0.6))
    them = counted_subject("seats", seats, "seat cushion", "seat cushions")
    bench.count(them, seats)
    if own != finish:
        bench.look(them, own)
    feet(bench, width / 2 - 0.1, depth / 2 - 0.1, finish, 0.045, 0.035)
    if bench.chance(0.5):
        own = bench.finish("fabric", unlike=[finish], patterned=0.4)
        side, x = bench.pick((("left", -width / 2 + 0.42), ("right", width / 2 - 0.42)))
        soft = turn(cushion((0.42, 0.42, 0.16), rounding=0.9), "x", -18)
        bench.add("pillow", own, move(soft, (x, 0.68, -depth / 2 + 0.33)))
        it = bench.look(subject("pillow", "pillow", "throw pillow"), own, material=False)
        bench.tell(it, "place", f"on the {side}", f"on the {side} side")
    if bench.chance(0.35):
        panel(bench, width * 0.4, high * 0.6, (0, 0.27 + high / 2, -depth / 2 - 0.006), finish)
    if bench.chance(0.5):
        side, x = bench.pick((("left", -width / 2 + 0.09), ("right", width / 2 - 0.09)))
        trinket(bench, (x, 0.63, 0.12), 0.26, (f"on the {side} arm", f"on the {side} armrest"), [finish])


STOOL_HEIGHTS = ((0.78, ("tall", "high")), (0.3, ("low", "short")), (0.5, ()))


def build_stool(bench: Workbench) -> None:
    width = bench.span(0.34, 0.44)
    height, words = bench.pick(STOOL_HEIGHTS)
    height += bench.span(-0.03, 0.03)
    finish = bench.finish("wood", "plastic", "leather", "fabric", "metal")
    whole = bench.begin(finish, ("stool",), "seat")
    bench.tell(whole, "size", *words)
    shape = bench.pick(("round", "square"))
    bench.tell(subject("seat", "seat", "top"), "shape", shape)
    if shape == "round":
        bench.add("seat", finish, disc(width / 2, 0.07, (0, height, 0)))
    else:
        make = cushion if finish.material in ("leather", "fabric") else box
        bench.add("seat", finish, make((width, 0.09, width), (0, height, 0)))
    bench.absent(subject("back", "back", "backrest"))
    support(bench, width * 0.8, width * 0.8, height - 0.02, bench.finish("wood", "metal", unlike=[finish]))
    if "tall" in words and bench.chance(0.6):
        hoop = bench.finish("metal", unlike=[finish])
        bench.add("footrest", hoop, move(ring(width * 0.42, 0.03, 0.03), (0, 0.28, 0)))
        bench.look(subject("footrest", "footrest", "foot ring"), hoop)
    if bench.chance(0.4):
        trinket(bench, (0, height + 0.05, 0), 0.18, ("on top", "on the seat"), [finish])
    elif bench.chance(0.4):
        trinket(bench, (width * 0.9, 0, 0), 0.2, ("on the right", "at its right side"))
