"""Small things that lie on a piece or under it. Each is about as high as its size and stands on y = 0."""

from collections.abc import Callable, Mapping, Sequence

from training.data.furniture.modeling.facts import subject
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import (
    PartMesh,
    Point,
    ball,
    box,
    lathe,
    merge,
    move,
    ring,
    turn,
)


def _cup(size: float) -> PartMesh:
    wide, thick = size * 0.36, size * 0.06
    side = [(0.0, 0.0), (wide * 0.8, 0.0), (wide, size * 0.85), (wide - thick, size * 0.85)]
    handle = move(turn(ring(size * 0.24, size * 0.09, size * 0.12, 10), "x", 90), (wide, size * 0.45, 0))
    return merge([lathe([*side, (wide * 0.7, thick), (0.0, thick)], 16), handle])


def _bottle(size: float) -> PartMesh:
    body, neck = size * 0.26, size * 0.1
    side = [(0, 0), (body, 0), (body, size * 0.7), (neck, size * 0.9), (neck, size * 1.25), (0, size * 1.25)]
    return lathe(side, 14)


def _bowl(size: float) -> PartMesh:
    outside = [(0, 0), (0.25, 0), (0.5, 0.25), (0.6, 0.5)]
    inside = [(0.54, 0.5), (0.4, 0.2), (0, 0.08)]
    return lathe([(radius * size, height * size) for radius, height in outside + inside], 18)


SHAPES: Mapping[str, Callable[[float], PartMesh]] = {
    "ball": lambda size: ball(size / 2, (0, size / 2, 0)),
    "book": lambda size: turn(box((size * 0.8, size * 0.28, size * 1.1), (0, size * 0.14, 0)), "y", 25),
    "bottle": _bottle,
    "bowl": _bowl,
    "box": lambda size: box((size * 0.85, size * 0.75, size * 0.85), (0, size * 0.375, 0)),
    "cone": lambda size: lathe([(0, 0), (size * 0.45, 0), (0, size * 1.1)], 16),
    "cup": _cup,
}
NOUNS = {"ball": ("ball", "sphere"), "cup": ("cup", "mug")}


def trinket(
    bench: Workbench, at: Point, size: float, place: Sequence[str], under: Sequence[Finish] = ()
) -> None:
    """Put a small thing somewhere; `place` holds the words for where."""
    present = {part.name for part in bench.parts}
    name = bench.pick([name for name in SHAPES if name not in present])
    finish = bench.finish("plastic", unlike=under)
    bench.add(name, finish, move(SHAPES[name](size), at))
    it = bench.paint(subject(name, *NOUNS.get(name, ())), finish)
    bench.tell(it, "place", *place)
