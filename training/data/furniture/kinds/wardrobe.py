"""A wardrobe: a tall case with two or three doors, drawers below, perhaps a mirror on a door."""

from training.data.furniture.facts import thing
from training.data.furniture.joinery import doors, drawers, legs, panel
from training.data.furniture.palette import Finish
from training.data.furniture.piece import Workbench
from training.data.furniture.primitives import box
from training.data.furniture.trinkets import trinket


def build(bench: Workbench) -> None:
    """The case gives the wardrobe its finish."""
    count = bench.pick((2, 3))
    width, high, depth = count * bench.span(0.42, 0.55), bench.span(1.6, 1.95), bench.span(0.5, 0.6)
    stand = bench.span(0.06, 0.16)
    finish = bench.finish("wood", "wood", "plastic", "metal")
    whole = bench.begin(finish, ("wardrobe", "closet"), "body")
    bench.tell(whole, "size", "wide" if count == 3 else "narrow")
    bench.add("body", finish, box((width, high, depth), (0, stand + high / 2, 0)))
    low = bench.pick((0, 1, 2)) * 0.2
    if low:
        centre = (0.0, stand + 0.02 + low / 2, depth / 2)
        drawers(bench, round(low / 0.2), width - 0.03, low, centre, finish)
    tall = high - low - 0.05
    middle = stand + low + 0.03 + tall / 2
    front = doors(bench, count, width - 0.03, tall, (0, middle, depth / 2), finish)
    legs(bench, width, depth, stand, bench.finish("wood", "metal", unlike=[finish]))
    if bench.chance(0.35):
        _mirror(bench, count, width, tall, (middle, depth / 2), front)
    if bench.chance(0.4):
        panel(bench, width * 0.6, high * 0.4, (0, stand + high * 0.55, -depth / 2 - 0.006), finish)
    if bench.chance(0.5):
        words = ("on top", "on it", "up on the top")
        trinket(bench, (width * bench.pick((-0.25, 0.25)), stand + high, 0), 0.34, words, [finish])


def _mirror(
    bench: Workbench, count: int, width: float, tall: float, at: tuple[float, float], front: Finish
) -> None:
    own = bench.finish("glass", unlike=[front])
    side, sign = bench.pick((("left", -1), ("right", 1)))
    x = sign * (count - 1) / 2 * width / count
    bench.add("mirror", own, box((width / count * 0.55, tall * 0.7, 0.012), (x, at[0], at[1] + 0.026)))
    it = thing("mirror", "mirror", "pane of mirror glass")
    bench.look(it, own)
    bench.tell(it, "place", f"on the {side} door", f"on the {side} door", f"on its {side} door")
