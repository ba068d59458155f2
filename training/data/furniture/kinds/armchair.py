"""An armchair: a soft block with a back, two thick arms and short feet."""

from training.data.furniture.facts import counted, thing
from training.data.furniture.joinery import panel
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import cushion, moved, rod, turned
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """Everything soft shares one finish; the arms may have their own."""
    width, depth, high = bench.span(0.75, 0.95), bench.span(0.7, 0.85), bench.span(0.45, 0.7)
    finish = bench.finish("fabric", "leather", "fabric", patterned=0.4)
    bench.begin(finish, ("armchair", "easy chair"), "seat", "back")
    bench.add("seat", finish, cushion((width - 0.2, 0.3, depth), (0, 0.3, 0)))
    bench.add("back", finish, cushion((width, high, 0.22), (0, 0.3 + high / 2, -depth / 2 + 0.08)))
    if high > 0.6:
        bench.tell(thing("back", "back", "backrest"), "size", "high", "high", "tall")
    arms = _arms(bench, width, depth, finish)
    _feet(bench, width, depth, finish)
    if bench.chance(0.4):
        panel(bench, width * 0.6, high * 0.5, (0, 0.3 + high / 2, -depth / 2 - 0.035), finish)
    if bench.chance(0.55):
        side, x = bench.pick((("left", -width / 2), ("right", width / 2)))
        trinket(bench, (x, 0.62, 0.1), 0.2, (f"on the {side} arm", f"on the {side} armrest"), [arms])
    if bench.chance(0.45):
        _pillow(bench, depth, finish)


def _arms(bench: Workbench, width: float, depth: float, finish: Finish) -> Finish:
    own = finish if bench.chance(0.5) else bench.finish("fabric", "wood", "leather", unlike=[finish])
    for x in (-width / 2, width / 2):
        bench.add("armrests", own, cushion((0.18, 0.46, depth), (x, 0.39, 0)))
    arms = counted("armrests", 2, "armrest", "armrests")
    bench.look(arms, own)
    return own


def _feet(bench: Workbench, width: float, depth: float, finish: Finish) -> None:
    own = bench.finish("wood", "metal", unlike=[finish])
    for x in (-width / 2 + 0.06, width / 2 - 0.06):
        for z in (-depth / 2 + 0.07, depth / 2 - 0.07):
            bench.add("legs", own, rod((x, 0.2, z), (x, 0, z), 0.04, 0.025))
    feet = counted("legs", 4, "leg", "legs")
    bench.look(feet, own)
    bench.tell(feet, "size", "short")


def _pillow(bench: Workbench, depth: float, finish: Finish) -> None:
    own = bench.finish("fabric", unlike=[finish], patterned=0.4)
    soft = turned(cushion((0.36, 0.34, 0.12), rounding=0.9), "x", -20)
    bench.add("pillow", own, moved(soft, (0, 0.62, -depth / 2 + 0.27)))
    it = thing("pillow", "pillow", "cushion")
    bench.look(it, own, made=False)
