"""A bench: a long seat, with or without a back."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.joinery import legs, panel
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """Seat and back share the finish of the bench."""
    width, depth, seat = bench.span(1.1, 1.7), bench.span(0.38, 0.48), bench.span(0.4, 0.48)
    finish = bench.finish("wood", "wood", "metal", "marble", "plastic")
    bench.begin(finish, ("bench",), "seat", "back")
    _seat(bench, width, depth, seat, finish)
    own = bench.finish("wood", "metal", "marble", unlike=[finish])
    if bench.chance(0.5):
        legs(bench, width, depth, seat - 0.02, own)
    else:
        _ends(bench, width, depth, seat, own)
    if bench.chance(0.5):
        _back(bench, width, depth, seat, finish)
    else:
        bench.absent(thing("back", "back", "backrest"))
    if bench.chance(0.65):
        side, x = bench.pick((("left", -width * 0.36), ("right", width * 0.36)))
        trinket(bench, (x, seat + 0.03, 0.02), 0.24, (f"on the {side} end", f"on its {side} end"), [finish])
    elif bench.chance(0.7):
        trinket(bench, (0, 0, 0), 0.25, ("underneath", "under it"))


def _seat(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> None:
    way = bench.pick(("solid", "slatted"))
    bench.tell(thing("seat"), "shape", way)
    if way == "solid":
        bench.add("seat", finish, box((width, 0.06, depth), (0, seat, 0)))
        return
    places = [depth * part for part in (-0.39, -0.13, 0.13, 0.39)]
    bench.add("seat", finish, *(box((width, 0.05, depth * 0.16), (0, seat, z)) for z in places))


def _ends(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> None:
    for x in (-width * 0.4, width * 0.4):
        bench.add("supports", finish, box((0.07, seat - 0.02, depth * 0.9), (x, seat / 2 - 0.01, 0)))
    them = counted("supports", 2, "support", "supports")
    bench.count(them, 2)
    bench.look(them, finish)


def _back(bench: Workbench, width: float, depth: float, seat: float, finish: Finish) -> None:
    it, z = thing("back", "back", "backrest"), -depth / 2 + 0.02
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
