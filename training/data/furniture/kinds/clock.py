"""A clock that stands: a case, a face with hands, feet, bells on top perhaps; a key or panel behind."""

from training.data.furniture.facts import colour, counted, thing
from training.data.furniture.joinery import panel
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import Mesh, ball, box, disc, lathe, merge, moved, rod, turned

HOURS = {3: "three", 6: "six", 9: "nine", 12: "twelve"}


def build(bench: Workbench) -> None:
    """The case gives the clock its finish."""
    shape, wide, deep = bench.pick(("round", "square", "tall")), bench.span(0.26, 0.34), bench.span(0.1, 0.16)
    finish = bench.finish("wood", "metal", "plastic", "marble")
    whole = bench.begin(finish, ("clock", "grandfather clock") if shape == "tall" else ("clock",), "case")
    bench.tell(whole, "shape", shape)
    foot, high = 0.05, wide * (2.6 if shape == "tall" else 1.0)
    centre = foot + high - wide / 2
    bench.add("case", finish, _case(shape, wide, high, deep, foot))
    _dial(bench, wide, centre, deep, finish)
    _feet(bench, wide, deep, foot, finish)
    if shape == "tall":
        _pendulum(bench, wide, centre, deep, finish)
    elif bench.chance(0.5):
        _bells(bench, wide, foot + high, shape, finish)
    if bench.chance(0.4):
        panel(bench, wide * 0.5, wide * 0.5, (0, centre, -deep / 2 - 0.006), finish)
    elif bench.chance(0.5):
        _key(bench, centre, deep, finish)


def _case(shape: str, wide: float, high: float, deep: float, foot: float) -> Mesh:
    if shape == "round":
        return moved(turned(disc(wide / 2, deep, segments=32), "x", 90), (0, foot + wide / 2, 0))
    return box((wide, high, deep), (0, foot + high / 2, 0))


def _dial(bench: Workbench, wide: float, centre: float, deep: float, finish: Finish) -> None:
    face = bench.finish("plastic", unlike=[finish])
    hands = bench.finish("plastic", unlike=[face])
    round_face = turned(disc(wide * 0.42, 0.012, segments=32), "x", 90)
    bench.add("face", face, moved(round_face, (0, centre, deep / 2 + 0.004)))
    hour = bench.pick(tuple(HOURS))
    at = (0.0, centre, deep / 2 + 0.014)
    for length, thick, degrees in ((0.22, 0.05, hour * 30.0), (0.36, 0.035, 0.0)):
        hand = box((thick * wide * 1.4, length * wide, 0.008), (0, length * wide / 2, 0))
        bench.add("hands", hands, moved(turned(hand, "z", -degrees), at))
    bench.look(thing("face", "face", "dial"), face, made=False)
    them = counted("hands", 2, "hand", "hands")
    bench.facts.append(colour(them, hands.colour))
    bench.tell(them, "place", f"at {hour} o'clock", f"at {hour} o'clock", f"at {HOURS[hour]} o'clock")


def _feet(bench: Workbench, wide: float, deep: float, foot: float, finish: Finish) -> None:
    own, z = bench.finish("metal", "wood", unlike=[finish]), deep * 0.3
    for x in (-wide * 0.3, wide * 0.3):
        bar = merge(
            [rod((x * 0.9, foot + 0.05, 0), (x, 0.012, 0), 0.02), box((0.05, 0.024, z * 2.6), (x, 0.012, 0))]
        )
        bench.add("feet", own, bar)
    them = counted("feet", 2, "foot", "feet")
    bench.count(them, 2)
    bench.look(them, own)


def _bells(bench: Workbench, wide: float, top: float, shape: str, finish: Finish) -> None:
    own, radius = bench.finish("metal", unlike=[finish]), wide * 0.17
    drop = wide * 0.08 if shape == "round" else 0.0
    for x in (-wide * 0.25, wide * 0.25):
        bench.add("bells", own, ball(radius, (x, top - drop + radius * 0.6, 0), 12))
    them = counted("bells", 2, "bell", "bells")
    bench.count(them, 2)
    bench.look(them, own, made=False)
    bench.tell(them, "place", "on top", "on top", "above it")


def _pendulum(bench: Workbench, wide: float, centre: float, deep: float, finish: Finish) -> None:
    own, z = bench.finish("metal", unlike=[finish]), deep / 2 + 0.01
    bob = moved(
        turned(lathe([(0, -0.01), (wide * 0.15, 0), (0, 0.01)], 20), "x", 90), (0, centre - wide * 1.3, z)
    )
    string = rod((0, centre - wide * 0.42, z), (0, centre - wide * 1.3, z), 0.012, sides=6)
    bench.add("pendulum", own, merge([bob, string]))
    bench.look(thing("pendulum"), own, made=False)


def _key(bench: Workbench, centre: float, deep: float, finish: Finish) -> None:
    own, z = bench.finish("metal", unlike=[finish]), -deep / 2
    handle = box((0.12, 0.06, 0.02), (0, centre, z - 0.06))
    bench.add("key", own, merge([rod((0, centre, z), (0, centre, z - 0.05), 0.015), handle]))
    it = thing("key", "key", "winding key")
    bench.look(it, own, made=False)
    bench.tell(it, "place", "on the back", "on the back", "behind")
