"""Things that stand or hang about: clock, lamp, mirror and vase."""

import numpy as np

from training.data.furniture.modeling.facts import counted_subject, subject
from training.data.furniture.modeling.joinery import panel
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import (
    PartMesh,
    ball,
    box,
    disc,
    lathe,
    merge,
    move,
    ring,
    rod,
    stretch,
    turn,
)
from training.data.furniture.modeling.trinkets import trinket

CLOCK_HOURS = {3: "three", 6: "six", 9: "nine", 12: "twelve"}


def build_clock(bench: Workbench) -> None:
    shape = bench.pick(("round", "square", "tall"))
    wide = bench.span(0.26, 0.34)
    deep = bench.span(0.1, 0.16)
    finish = bench.finish("wood", "metal", "plastic", "marble")
    whole = bench.begin(finish, ("clock", "grandfather clock") if shape == "tall" else ("clock",), "case")
    bench.tell(whole, "shape", shape)
    foot, high = 0.05, wide * (2.6 if shape == "tall" else 1.0)
    centre = foot + high - wide / 2
    bench.add("case", finish, _clock_case(shape, wide, high, deep, foot))
    _clock_dial(bench, wide, centre, deep, finish)
    own = bench.finish("metal", "wood", unlike=[finish])
    z = deep * 0.3
    for x in (-wide * 0.3, wide * 0.3):
        post = rod((x * 0.9, foot + 0.05, 0), (x, 0.012, 0), 0.02)
        bench.add("feet", own, merge([post, box((0.05, 0.024, z * 2.6), (x, 0.012, 0))]))
    bench.group("feet", 2, own, "foot")
    if shape == "tall":
        own = bench.finish("metal", unlike=[finish])
        z = deep / 2 + 0.01
        disk = turn(lathe([(0, -0.01), (wide * 0.15, 0), (0, 0.01)], 20), "x", 90)
        bob = move(disk, (0, centre - wide * 1.3, z))
        string = rod((0, centre - wide * 0.42, z), (0, centre - wide * 1.3, z), 0.012, sides=6)
        bench.add("pendulum", own, merge([bob, string]))
        bench.look(subject("pendulum"), own, material=False)
    elif bench.chance(0.5):
        own = bench.finish("metal", unlike=[finish])
        radius = wide * 0.17
        drop = wide * 0.08 if shape == "round" else 0.0
        for x in (-wide * 0.25, wide * 0.25):
            bench.add("bells", own, ball(radius, (x, (foot + high) - drop + radius * 0.6, 0), 12))
        them = bench.group("bells", 2, own, "bell", material=False)
        bench.tell(them, "place", "on top", "above it")
    if bench.chance(0.4):
        panel(bench, wide * 0.5, wide * 0.5, (0, centre, -deep / 2 - 0.006), finish)
    elif bench.chance(0.5):
        own = bench.finish("metal", unlike=[finish])
        z = -deep / 2
        handle = box((0.12, 0.06, 0.02), (0, centre, z - 0.06))
        bench.add("key", own, merge([rod((0, centre, z), (0, centre, z - 0.05), 0.015), handle]))
        it = bench.look(subject("key", "key", "winding key"), own, material=False)
        bench.tell(it, "place", "on the back", "behind")


def _clock_case(shape: str, wide: float, high: float, deep: float, foot: float) -> PartMesh:
    if shape == "round":
        return move(turn(disc(wide / 2, deep, segments=32), "x", 90), (0, foot + wide / 2, 0))
    return box((wide, high, deep), (0, foot + high / 2, 0))


def _clock_dial(bench: Workbench, wide: float, centre: float, deep: float, finish: Finish) -> None:
    face = bench.finish("plastic", unlike=[finish])
    hands = bench.finish("plastic", unlike=[face])
    round_face = turn(disc(wide * 0.42, 0.012, segments=32), "x", 90)
    bench.add("face", face, move(round_face, (0, centre, deep / 2 + 0.004)))
    hour = bench.pick(tuple(CLOCK_HOURS))
    at = (0.0, centre, deep / 2 + 0.014)
    for length, thick, degrees in ((0.22, 0.05, hour * 30.0), (0.36, 0.035, 0.0)):
        hand = box((thick * wide * 1.4, length * wide, 0.008), (0, length * wide / 2, 0))
        bench.add("hands", hands, move(turn(hand, "z", -degrees), at))
    bench.look(subject("face", "face", "dial"), face, material=False)
    them = bench.paint(counted_subject("hands", 2, "hand"), hands)
    bench.tell(them, "place", f"at {hour} o'clock", f"at {CLOCK_HOURS[hour]} o'clock")


LAMP_SIZES = (
    ("floor lamp", ("tall", "high"), (1.2, 1.5), (0.22, 0.3)),
    ("table lamp", ("low", "small"), (0.42, 0.6), (0.17, 0.24)),
)
LAMP_SHADES = {
    "conical": ("conical", "cone-shaped", "tapered"),
    "cylindrical": ("cylindrical", "drum-shaped"),
    "round": ("round", "spherical"),
    "domed": ("domed", "dome-shaped"),
}


def build_lamp(bench: Workbench) -> None:
    """The shade gives the lamp its finish; base and stem share another."""
    name, words, heights, widths = bench.pick(LAMP_SIZES)
    height, wide = bench.span(*heights), bench.span(*widths)
    finish = bench.finish("fabric", "plastic", "glass", "metal", patterned=0.5)
    whole = bench.begin(finish, ("lamp", name), "shade", uniform=False)
    bench.tell(whole, "size", *words)
    shape = bench.pick(tuple(LAMP_SHADES))
    bench.add("shade", finish, move(_lamp_shade(shape, wide), (0, height, 0)))
    shade = bench.look(subject("shade", "shade", "lampshade"), finish)
    bench.tell(shade, "shape", *LAMP_SHADES[shape])
    _lamp_foot(bench, height, wide, finish)


def _lamp_shade(shape: str, wide: float) -> PartMesh:
    if shape == "round":
        return ball(wide * 0.9, (0, wide * 0.3, 0), 20)
    if shape == "domed":
        quarter = ((1, 0), (0.92, 0.38), (0.7, 0.7), (0.38, 0.92), (0, 1))
        arc = [(wide * 1.1 * c, wide * 0.9 * s) for c, s in quarter]
        return lathe([(0.0, 0.02), (wide * 1.05, 0.0), *arc], 24)
    top = wide * (0.45 if shape == "conical" else 0.95)
    low, high = -wide * 0.25, wide * (1.0 if shape == "conical" else 0.9)
    return lathe([(0, low + 0.02), (wide, low), (top, high), (0, high - 0.02)], 24)


def _lamp_foot(bench: Workbench, height: float, wide: float, finish: Finish) -> None:
    own = bench.finish("metal", "wood", "ceramic", "marble", unlike=[finish])
    shape = bench.pick(("round", "square", "tripod"))
    thick = max(0.02, height * 0.018)
    start = height * 0.55 if shape == "tripod" else 0.0
    bench.add("stem", own, rod((0, start, 0), (0, height, 0), thick))
    bench.add("base", own, _lamp_base(shape, wide, start, thick))
    it = bench.look(subject("base", "base", "foot", parts=("base", "stem")), own)
    bench.tell(it, "shape", shape)
    if shape != "tripod" and bench.chance(0.5):
        button = bench.finish("plastic", unlike=[own])
        side, sign = bench.pick((("left", -1), ("right", 1)))
        bench.add("button", button, ball(wide * 0.2, (sign * wide * 0.62, 0.05, 0), 10))
        it = bench.look(subject("button", "button", "knob"), button)
        bench.tell(it, "place", f"on the {side}", f"on the {side} side")


def _lamp_base(shape: str, wide: float, start: float, thick: float) -> PartMesh:
    if shape == "round":
        return disc(wide * 0.8, 0.05, (0, 0.025, 0))
    if shape == "square":
        return box((wide * 1.4, 0.06, wide * 1.4), (0, 0.03, 0))
    feet = [(-wide, 0.0, wide * 0.6), (wide, 0.0, wide * 0.6), (0.0, 0.0, -wide * 1.1)]
    return merge(rod((0, start, 0), foot, thick, thick * 0.7) for foot in feet)


MIRROR_HEIGHTS = ((1.6, ("tall", "high")), (0.8, ("small", "low")), (1.15, ()))


def build_mirror(bench: Workbench) -> None:
    (height, words), shape = bench.pick(MIRROR_HEIGHTS), bench.pick(("round", "oval", "rectangular"))
    width = bench.span(0.55, 0.7)
    high = width if shape == "round" else height * 0.8
    finish = bench.finish("wood", "metal", "plastic")
    whole = bench.begin(finish, ("mirror", "standing mirror"), "frame")
    bench.tell(whole, "shape", shape)
    if shape != "round":
        bench.tell(whole, "size", *words)
    centre = high / 2 + 0.25
    bench.add("frame", finish, move(_mirror_plate(shape, width, high, 0.05), (0, centre, 0)))
    pane = bench.finish("glass", unlike=[finish])
    bench.add("pane", pane, move(_mirror_plate(shape, width - 0.14, high - 0.14, 0.01), (0, centre, 0.026)))
    bench.look(subject("pane", "pane", "reflecting pane"), pane)
    back = bench.finish("wood", "plastic", "fabric", unlike=[finish])
    bench.add("back", back, move(_mirror_plate(shape, width - 0.08, high - 0.08, 0.01), (0, centre, -0.026)))
    bench.look(subject("back", "back", "rear"), back)
    own = bench.finish("wood", "metal", unlike=[finish])
    for x in (-width / 2 - 0.04, width / 2 + 0.04):
        foot = box((0.06, 0.05, 0.4), (x, 0.025, 0))
        bench.add("posts", own, rod((x, 0.02, 0), (x, centre, 0), 0.028), foot)
    bench.add("bar", own, rod((-width / 2 - 0.04, 0.14, 0), (width / 2 + 0.04, 0.14, 0), 0.02))
    bench.look(subject("stand", "stand", "foot", parts=("posts", "bar")), own)
    if bench.chance(0.6):
        own = bench.finish("wood", "plastic", "glass", unlike=[finish])
        bench.add("ledge", own, box((width, 0.03, 0.3), (0, 0.17, 0.05)))
        bench.look(subject("ledge"), own)
        if bench.chance(0.7):
            side, x = bench.pick((("left", -width * 0.3), ("right", width * 0.3)))
            words = (f"on the {side} of the ledge", f"on the ledge, to the {side}")
            trinket(bench, (x, 0.185, 0.1), 0.2, words, [own])


def _mirror_plate(shape: str, width: float, high: float, thick: float) -> PartMesh:
    if shape == "rectangular":
        return box((width, high, thick))
    return stretch(turn(disc(width / 2, thick, segments=32), "x", 90), (1, high / width, 1))


# Radius over height at nine even steps from the foot to the lip.
VASE_SHAPES = {
    "round": (0.16, 0.3, 0.38, 0.4, 0.37, 0.28, 0.17, 0.13, 0.17),
    "slender": (0.11, 0.13, 0.15, 0.16, 0.15, 0.12, 0.09, 0.075, 0.09),
    "flared": (0.12, 0.1, 0.1, 0.11, 0.13, 0.16, 0.2, 0.26, 0.33),
    "straight": (0.2, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21, 0.21),
}
VASE_WORDS = {
    "round": ("round", "bulbous"),
    "slender": ("slender", "slim"),
    "flared": ("flared", "trumpet-shaped"),
}


def build_vase(bench: Workbench) -> None:
    height = bench.span(0.32, 0.5)
    shape = bench.pick(tuple(VASE_SHAPES))
    finish = bench.finish("ceramic", "ceramic", "glass", "metal", "marble", patterned=0.5)
    whole = bench.begin(finish, ("vase",), "body")
    bench.tell(whole, "shape", *VASE_WORDS.get(shape, ("straight", "cylindrical")))
    radii = [radius * height for radius in VASE_SHAPES[shape]]
    outline = list(zip(radii, (float(level) for level in np.linspace(0, height, 9)), strict=True))
    inside = [(radii[-1] * 0.88, height), (radii[-1] * 0.8, height * 0.75), (0.0, height * 0.7)]
    bench.add("body", finish, lathe([(0.0, 0.0), *outline, *inside], 24))
    _vase_handles(bench, radii, height, finish)
    if bench.chance(0.55):
        count = bench.pick((1, 2, 3))
        own = bench.finish("plastic", unlike=[finish])
        stem = Finish("green", "plastic")
        for index in range(count):
            angle = 2 * np.pi * index / count + 0.5
            lean = 0.0 if count == 1 else height * 0.25
            head = (lean * float(np.sin(angle)), height * (1.3 - 0.1 * index), lean * float(np.cos(angle)))
            bench.add("stems", stem, rod((0, height * 0.72, 0), head, height * 0.02, sides=6))
            bench.add("flowers", own, ball(height * 0.15, head, 10))
        them = counted_subject("flowers", count, "flower")
        bench.count(them, count)
        bench.paint(them, own)
    if bench.chance(0.4):
        own = bench.finish("ceramic", unlike=[finish], patterned=0.0)
        wide = radii[2] * 1.03
        low, high = (radii[1] * 1.04, height / 8), (radii[3] * 1.04, height * 3 / 8)
        bench.add("band", own, lathe([(0, low[1]), low, (wide * 1.01, height / 4), high, (0, high[1])], 24))
        bench.count(bench.paint(subject("band", "band", "belt"), own), 1)
    if bench.chance(0.5):
        own = bench.finish("plastic", unlike=[finish])
        side, sign = bench.pick((("front", 1), ("back", -1)))
        bulge = ball(height * 0.12, (0, 0, 0), 12)
        bench.add("spot", own, move(bulge, (0, height * 0.5, sign * (radii[4] - height * 0.06))))
        it = bench.paint(subject("spot", "spot", "knob"), own)
        bench.tell(it, "place", f"on the {side}", f"on its {side}")


def _vase_handles(bench: Workbench, radii: list[float], height: float, finish: Finish) -> None:
    count = bench.pick((0, 1, 2, 2))
    if count == 0:
        bench.absent(subject("handles", "handles", plural=True))
        return
    own = finish if bench.chance(0.5) else bench.finish("ceramic", "metal", unlike=[finish], patterned=0.0)
    signs = bench.pick(((-1,), (1,))) if count == 1 else (-1, 1)
    hoop = turn(ring(height * 0.17, height * 0.045, height * 0.05, 16), "x", 90)
    for sign in signs:
        bench.add("handles", own, move(hoop, (sign * (radii[5] + height * 0.08), height * 0.62, 0)))
    them = bench.group("handles", count, own, "handle")
    if count == 1:
        side = "left" if signs[0] < 0 else "right"
        bench.tell(them, "place", f"on the {side}", f"on the {side} side")
