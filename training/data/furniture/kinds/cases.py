"""Furniture that holds things: cabinet, nightstand, shelf and wardrobe."""

from training.data.furniture.modeling.facts import counted_subject, subject
from training.data.furniture.modeling.joinery import (
    BACK,
    FRONT,
    THROUGH,
    Facing,
    boards,
    doors,
    drawers,
    legs,
    panel,
    rear,
)
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import box
from training.data.furniture.modeling.trinkets import trinket

CABINET_SIZES = (((1.2, 0.5), ("low", "squat")), ((0.7, 1.15), ("tall", "high")), ((0.95, 0.8), ()))


def build_cabinet(bench: Workbench) -> None:
    size, words = bench.pick(CABINET_SIZES)
    depth, stand = bench.span(0.4, 0.5), bench.span(0.1, 0.25)
    width, high = (length * bench.span(0.92, 1.08) for length in size)
    finish = bench.finish("wood", "wood", "metal", "plastic")
    whole = bench.begin(finish, ("cabinet", "cupboard"), "body")
    bench.tell(whole, "size", *words)
    boards(bench, (width, high, depth), stand, finish)
    middle = stand + high / 2
    bench.add("body", finish, box((width - 0.06, high - 0.06, 0.02), (0, middle, depth / 2 - 0.03)))
    number = bench.pick((1, 2)) if width < 0.8 else bench.pick((2, 3, 4))
    doors(bench, number, width - 0.03, high - 0.03, (0, middle, depth / 2 - 0.02), finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    if bench.chance(0.6):
        rear(bench, width - 0.06, high - 0.06, (0, middle, -depth / 2 + 0.01), finish, BACK)
    else:
        bench.add("body", finish, box((width - 0.06, high - 0.06, 0.02), (0, middle, -depth / 2 + 0.02)))
        panel(bench, width * 0.5, high * 0.5, (0, middle, -depth / 2), finish)
    if bench.chance(0.4):
        side: Facing = bench.pick(("left", "right"))
        if all(part.name != "drawers" for part in bench.parts):
            x = -width / 2 if side == "left" else width / 2
            drawers(bench, bench.pick((1, 2)), (depth * 0.8, high * 0.55), (x, middle, 0), finish, side)
    if bench.chance(0.6):
        where, x = bench.pick((("left", -width * 0.3), ("right", width * 0.3)))
        words = (f"on top, on the {where}", f"on top at the {where}")
        trinket(bench, (x, middle + high / 2, 0), 0.24, words, [finish])


def build_nightstand(bench: Workbench) -> None:
    width, depth, high = bench.span(0.42, 0.55), bench.span(0.36, 0.45), bench.span(0.32, 0.45)
    stand = bench.span(0.1, 0.22)
    finish = bench.finish("wood", "plastic", "metal")
    bench.begin(finish, ("nightstand", "bedside table", "night table"), "body")
    boards(bench, (width, high, depth), stand, finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    middle = stand + high / 2
    if bench.chance(0.65):
        bench.add("body", finish, box((width - 0.06, high - 0.06, depth - 0.04), (0, middle, 0)))
        count = bench.pick((1, 2, 3))
        front = (0.0, middle, depth / 2 - 0.015)
        drawers(bench, count, (width - 0.04, high - 0.04), front, finish)
        if bench.chance(0.5):
            panel(bench, width * 0.6, high * 0.6, (0, middle, -depth / 2 - 0.006), finish)
    else:
        bench.tell(subject("niche", "niche", "compartment"), "shape", "open", sides=FRONT)
        rear(bench, width - 0.06, high - 0.06, (0, middle, -depth / 2 + 0.01), finish, BACK)
        if bench.chance(0.5):
            trinket(bench, (0, middle - high / 2 + 0.03, 0.03), 0.18, ("inside", "in it"), [finish])
    if bench.chance(0.75):
        x = width * bench.pick((-0.2, 0.2))
        trinket(bench, (x, stand + high, 0), 0.17, ("on top", "on it"), [finish])


SHELF_SIZES = ((0.45, ("narrow",)), (1.2, ("wide",)), (0.8, ()))
SHELF_PLACES = {
    "bottom": ("at the bottom", "in the lowest compartment"),
    "second": ("in the second compartment from below",),
    "highest": ("in the highest compartment",),
}


def build_shelf(bench: Workbench) -> None:
    """The case gives the shelf its finish; the boards inside may have their own."""
    size, words = bench.pick(SHELF_SIZES)
    depth = bench.span(0.28, 0.36)
    levels = bench.pick((1, 2, 3, 4))
    width, high = size * bench.span(0.92, 1.08), (levels + 1) * bench.span(0.31, 0.37)
    finish = bench.finish("wood", "wood", "metal", "plastic")
    whole = bench.begin(finish, ("shelf", "bookshelf", "bookcase", "shelving unit"), "body")
    bench.tell(whole, "size", *words)
    boards(bench, (width, high, depth), 0.0, finish)
    own = finish if bench.chance(0.5) else bench.finish("wood", "glass", "plastic", unlike=[finish])
    step = (high - 0.03) / (levels + 1)
    for level in range(1, levels + 1):
        bench.add("levels", own, box((width - 0.06, 0.03, depth - 0.04), (0, level * step + 0.015, 0.015)))
    them = counted_subject("levels", levels, "inner board", "inner boards")
    bench.count(them, levels)
    if own != finish:
        bench.look(them, own)
    rear(bench, width - 0.06, high - 0.06, (0, high / 2, -depth / 2 + 0.012), finish, THROUGH)
    step = (high - 0.03) / (levels + 1)
    for name, level in (("bottom", 0), ("second", 1), ("highest", levels)):
        if bench.chance(0.45) and (name == "bottom" or level >= (2 if name == "highest" else 1)):
            at = (width * bench.span(-0.25, 0.25), level * step + 0.03, 0.02)
            trinket(bench, at, 0.2, SHELF_PLACES[name], [finish])
    if bench.chance(0.35):
        trinket(bench, (0, high, 0), 0.22, ("on top of it", "on the very top"), [finish])


def build_wardrobe(bench: Workbench) -> None:
    count = bench.pick((2, 3))
    width = count * bench.span(0.42, 0.55)
    high = bench.span(1.6, 1.95)
    depth = bench.span(0.5, 0.6)
    stand = bench.span(0.06, 0.16)
    finish = bench.finish("wood", "wood", "plastic", "metal")
    whole = bench.begin(finish, ("wardrobe", "closet"), "body")
    bench.tell(whole, "size", "wide" if count == 3 else "narrow")
    bench.add("body", finish, box((width, high, depth), (0, stand + high / 2, 0)))
    low = bench.pick((0, 1, 2)) * 0.2
    if low:
        centre = (0.0, stand + 0.02 + low / 2, depth / 2)
        drawers(bench, round(low / 0.2), (width - 0.03, low), centre, finish)
    tall = high - low - 0.05
    middle = stand + low + 0.03 + tall / 2
    front = doors(bench, count, width - 0.03, tall, (0, middle, depth / 2), finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    if bench.chance(0.35):
        own = bench.finish("glass", unlike=[front])
        side, sign = bench.pick((("left", -1), ("right", 1)))
        x = sign * (count - 1) / 2 * width / count
        bench.add(
            "mirror", own, box((width / count * 0.55, tall * 0.7, 0.012), (x, middle, depth / 2 + 0.026))
        )
        it = bench.look(subject("mirror", "mirror", "pane of mirror glass"), own)
        bench.tell(it, "place", f"on the {side} door", f"on its {side} door")
    if bench.chance(0.4):
        panel(bench, width * 0.6, high * 0.4, (0, stand + high * 0.55, -depth / 2 - 0.006), finish)
    if bench.chance(0.5):
        words = ("on top", "on it", "up on the top")
        trinket(bench, (width * bench.pick((-0.25, 0.25)), stand + high, 0), 0.34, words, [finish])
