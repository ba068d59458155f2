"""A lamp: base, stem and shade, for the floor or for a table."""

from training.data.furniture.facts import thing
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import Mesh, ball, box, disc, lathe, merge, moved, rod

SHADES = {
    "conical": ("conical", "cone-shaped", "tapered"),
    "cylindrical": ("cylindrical", "drum-shaped"),
    "round": ("round", "spherical"),
    "domed": ("domed", "dome-shaped"),
}


def build(bench: Workbench) -> None:
    """The shade gives the lamp its finish; base and stem share another."""
    size = bench.pick(("tall", "low"))
    height = bench.span(1.2, 1.5) if size == "tall" else bench.span(0.42, 0.6)
    wide = bench.span(0.17, 0.24) if size == "low" else bench.span(0.22, 0.3)
    finish = bench.finish("fabric", "plastic", "glass", "metal", patterned=0.5)
    whole = bench.begin(
        finish, ("lamp", "floor lamp" if size == "tall" else "table lamp"), "shade", told=False
    )
    bench.tell(whole, "size", size, *{"tall": ("tall", "high"), "low": ("low", "small")}[size])
    shape = bench.pick(tuple(SHADES))
    bench.add("shade", finish, moved(_shade(shape, wide), (0, height, 0)))
    shade = thing("shade", "shade", "lampshade")
    bench.look(shade, finish)
    bench.tell(shade, "shape", shape, *SHADES[shape])
    _foot(bench, height, wide, finish)


def _shade(shape: str, wide: float) -> Mesh:
    if shape == "round":
        return ball(wide * 0.9, (0, wide * 0.3, 0), 20)
    if shape == "domed":
        arc = [
            (wide * 1.1 * c, wide * 0.9 * s)
            for c, s in ((1, 0), (0.92, 0.38), (0.7, 0.7), (0.38, 0.92), (0, 1))
        ]
        return lathe([(0.0, 0.02), (wide * 1.05, 0.0), *arc], 24)
    top = wide * (0.45 if shape == "conical" else 0.95)
    low, high = -wide * 0.25, wide * (1.0 if shape == "conical" else 0.9)
    return lathe([(0, low + 0.02), (wide, low), (top, high), (0, high - 0.02)], 24)


def _foot(bench: Workbench, height: float, wide: float, finish: Finish) -> None:
    own = bench.finish("metal", "wood", "ceramic", "marble", unlike=[finish])
    shape, thick = bench.pick(("round", "square", "tripod")), max(0.02, height * 0.018)
    start = height * 0.55 if shape == "tripod" else 0.0
    bench.add("stem", own, rod((0, start, 0), (0, height, 0), thick))
    bench.add("base", own, _base(shape, wide, start, thick))
    it = thing("base", "base", "foot", parts=("base", "stem"))
    bench.look(it, own)
    bench.tell(it, "shape", shape)
    if shape != "tripod" and bench.chance(0.5):
        _switch(bench, wide, own)


def _base(shape: str, wide: float, start: float, thick: float) -> Mesh:
    if shape == "round":
        return disc(wide * 0.8, 0.05, (0, 0.025, 0))
    if shape == "square":
        return box((wide * 1.4, 0.06, wide * 1.4), (0, 0.03, 0))
    feet = [(-wide, 0.0, wide * 0.6), (wide, 0.0, wide * 0.6), (0.0, 0.0, -wide * 1.1)]
    return merge(rod((0, start, 0), foot, thick, thick * 0.7) for foot in feet)


def _switch(bench: Workbench, wide: float, base: Finish) -> None:
    own = bench.finish("plastic", unlike=[base])
    side, sign = bench.pick((("left", -1), ("right", 1)))
    radius = wide * 0.2
    bench.add("button", own, ball(radius, (sign * wide * 0.62, 0.05, 0), 10))
    it = thing("button", "button", "knob")
    bench.look(it, own)
    bench.tell(it, "place", f"on the {side}", f"on the {side}", f"on the {side} side")
