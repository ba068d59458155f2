"""Beds."""

from training.data.furniture.modeling.facts import subject
from training.data.furniture.modeling.joinery import Facing, drawers, feet
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import box, cushion, disc, move, stretch, turn
from training.data.furniture.modeling.trinkets import trinket


def build_bed(bench: Workbench) -> None:
    size = bench.pick(("narrow", "wide"))
    length = bench.span(1.9, 2.1)
    width = bench.span(0.85, 1.0) if size == "narrow" else bench.span(1.5, 1.8)
    finish = bench.finish("wood", "metal", "plastic", "leather")
    whole = bench.begin(finish, ("bed",), "frame", "headboard")
    bench.tell(whole, "size", *{"narrow": ("narrow", "single"), "wide": ("wide", "double")}[size])
    bench.add("frame", finish, box((width, 0.22, length), (0, 0.29, 0)))
    feet(bench, width / 2 - 0.08, length / 2 - 0.08, finish, 0.055)
    _bed_headboard(bench, width, length, finish)
    sheet = bench.finish("fabric", unlike=[finish], patterned=0.0)
    bench.add("mattress", sheet, cushion((width - 0.06, 0.22, length - 0.1), (0, 0.47, 0.02), 0.5))
    blanket = bench.finish("fabric", unlike=[sheet, finish], patterned=0.5)
    bench.add("blanket", blanket, box((width + 0.02, 0.2, length * 0.55), (0, 0.5, length * 0.21)))
    bench.look(subject("blanket", "blanket", "cover"), blanket, material=False)
    count = 1 if size == "narrow" else 2
    own = bench.finish("fabric", unlike=[sheet], patterned=0.4)
    for index in range(count):
        x = (index - (count - 1) / 2) * width * 0.45
        wide = width * 0.38 if count == 2 else 0.6
        bench.add("pillows", own, cushion((wide, 0.16, 0.36), (x, 0.63, -length / 2 + 0.3), 0.9))
    bench.group("pillows", count, own, "pillow", material=False)
    if bench.chance(0.45):
        side: Facing = bench.pick(("left", "right"))
        x = -width / 2 if side == "left" else width / 2
        drawers(bench, 1, (0.7, 0.2), (x, 0.29, 0), finish, side)
    if bench.chance(0.4):
        trinket(bench, (width * 0.2, 0.57, length * 0.3), 0.3, ("at the foot end", "near the foot end"))


def _bed_headboard(bench: Workbench, width: float, length: float, finish: Finish) -> None:
    it = subject("headboard", "headboard")
    z = -length / 2 + 0.03
    way = bench.pick(("solid", "slatted", "round", None))
    if way is None:
        bench.absent(it)
        return
    bench.tell(it, "shape", *{"round": ("round", "curved")}.get(way, (way,)))
    if way == "solid":
        bench.add("headboard", finish, box((width, 0.75, 0.06), (0, 0.6, z)))
    elif way == "round":
        plate = turn(disc(width / 2, 0.06, segments=32), "x", 90)
        bench.add("headboard", finish, move(stretch(plate, (1, 1 / width, 1)), (0, 0.62, z)))
    else:
        rails = [box((width, 0.08, 0.05), (0, 0.95, z))]
        places = [width * (index - 4) / 8.4 for index in range(9)]
        bench.add("headboard", finish, *rails, *(box((0.05, 0.65, 0.04), (x, 0.6, z)) for x in places))
