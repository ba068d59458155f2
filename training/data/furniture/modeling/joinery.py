"""What several kinds have in common: legs, fronts of drawers and doors, boards, panels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from training.data.furniture.modeling.facts import FactSubject, Side, counted_subject, subject
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.piece import Workbench
from training.data.furniture.modeling.primitives import (
    PartMesh,
    Point,
    ball,
    box,
    disc,
    merge,
    move,
    rod,
    turn,
)

Facing: TypeAlias = Literal["front", "right", "back", "left"]
TURNS: Mapping[Facing, float] = {"front": 0.0, "right": 90.0, "back": 180.0, "left": -90.0}
BACK: frozenset[Side] = frozenset(("back",))
FRONT: frozenset[Side] = frozenset(("front",))
THROUGH: frozenset[Side] = frozenset(("front", "back"))

THICKNESSES = ((0.022, ("thin", "slim")), (0.055, ("thick", "sturdy")), (0.035, ()))
GAP = 0.025  # between two drawers or doors
GAP_DEPTH = 0.012  # of the dark board behind them


def support(bench: Workbench, width: float, depth: float, height: float, finish: Finish, *ways: str) -> None:
    """Stand a piece on legs or a pedestal, as high as that."""
    way = bench.pick(ways or ("four", "four", "three", "pedestal"))
    if way == "pedestal":
        pedestal(bench, min(width, depth) * 0.42, height, finish)
        return
    number = 3 if way == "three" else 4
    bench.count(legs(bench, width, depth, height, finish, number), number)


def legs(
    bench: Workbench, width: float, depth: float, height: float, finish: Finish, count: int = 4
) -> FactSubject:
    """Legs under the corners, or two in front and one behind."""
    thickness, words = bench.pick(THICKNESSES)
    radius = thickness * max(1.0, max(width, depth) / 0.8)
    splay = 0.35 * min(height, 0.5) if height > 0.2 and bench.chance(0.3) else 0.0
    sides, tip = bench.pick(((4, 1.0), (10, 1.0), (10, 0.5)))
    x, z = width / 2 - radius, depth / 2 - radius
    corners = [(-x, z), (x, z), (-x, -z), (x, -z)] if count == 4 else [(-x, z), (x, z), (0.0, -z)]
    for cx, cz in corners:
        foot = (cx * (1 + splay / width), 0.0, cz * (1 + splay / depth))
        bench.add("legs", finish, rod((cx, height, cz), foot, radius, radius * tip, sides))
    them = bench.look(counted_subject("legs", count, "leg"), finish)
    bench.tell(them, "size", *words)
    if splay:
        bench.tell(them, "shape", "splayed", "slanted")
    return them


def feet(
    bench: Workbench, x: float, z: float, body: Finish, radius: float, tip: float | None = None
) -> FactSubject:
    """Four short legs at the corners (±x, ±z)."""
    finish = bench.finish("wood", "metal", unlike=[body])
    for at in ((-x, -z), (-x, z), (x, -z), (x, z)):
        bench.add("legs", finish, rod((at[0], 0.2, at[1]), (at[0], 0, at[1]), radius, tip))
    return bench.look(counted_subject("legs", 4, "leg"), finish)


def pedestal(bench: Workbench, radius: float, height: float, finish: Finish) -> None:
    foot = disc(radius, 0.04, (0, 0.02, 0))
    column = rod((0, 0.02, 0), (0, height, 0), radius * 0.22, radius * 0.16, 14)
    bench.add("pedestal", finish, merge([foot, column]))
    it = subject("pedestal", "pedestal", "central foot")
    bench.count(it, 1)
    bench.look(it, finish)


def fronts(count: int, width: float, height: float, upright: bool) -> list[PartMesh]:
    """Equal boards that fill a width and height, side by side if upright, centred, looking to +Z."""
    long = (width if upright else height) / count
    places = [(index - (count - 1) / 2) * long for index in range(count)]
    if upright:
        return [box((long - GAP, height - GAP, 0.02), (place, 0, 0.01)) for place in places]
    return [box((width - GAP, long - GAP, 0.02), (0, -place, 0.01)) for place in places]


def shadow(finish: Finish) -> Finish:
    """The same, but dark: what shows between boards."""
    return replace(finish, shade=0.3)


def facing(mesh: PartMesh, side: Facing, centre: Point) -> PartMesh:
    """A mesh that looks to +Z, turned to a side and pushed to its place there."""
    return move(turn(mesh, "y", TURNS[side]), centre)


def drawers(
    bench: Workbench,
    count: int,
    size: tuple[float, float],
    centre: Point,
    body: Finish,
    side: Facing = "front",
) -> FactSubject:
    finish = body if bench.chance(0.35) else bench.finish("wood", "plastic", unlike=[body])
    knob = bench.finish("metal", unlike=[finish])
    bench.add("gaps", shadow(body), facing(box((*size, GAP_DEPTH)), side, centre))
    width, height = size
    for front in fronts(count, width, height, upright=False):
        bench.add("drawers", finish, facing(front, side, centre))
        middle = float(front.vertices[:, 1].mean())
        bench.add("knobs", knob, facing(ball(0.024, (0, middle, 0.035), 8), side, centre))
    them = bench.group("drawers", count, finish, "drawer")
    bench.look(counted_subject("knobs", count, "knob"), knob, material=False)
    if side != "front":
        bench.tell(them, "place", f"on the {side}", f"on the {side} side")
    return them


def doors(bench: Workbench, count: int, width: float, height: float, centre: Point, body: Finish) -> Finish:
    finish = body if bench.chance(0.35) else bench.finish("wood", "plastic", "glass", unlike=[body])
    handle = bench.finish("metal", unlike=[finish])
    bench.add("gaps", shadow(body), move(box((width, height, GAP_DEPTH)), centre))
    for index, front in enumerate(fronts(count, width, height, upright=True)):
        bench.add("doors", finish, move(front, centre))
        low, high = front.vertices[:, 0].min(), front.vertices[:, 0].max()
        x = float(high - 0.05 if index % 2 == 0 else low + 0.05)
        grip = box((0.025, min(0.3, height * 0.35), 0.03), (x, 0, 0.035))
        bench.add("handles", handle, move(grip, centre))
    bench.group("doors", count, finish, "door")
    bench.look(counted_subject("handles", count, "handle"), handle, material=False)
    return finish


def boards(bench: Workbench, size: Point, base: float, finish: Finish, board: float = 0.03) -> None:
    """Two sides, a bottom and a top: a box open at the front and the back, standing at a height."""
    width, height, depth = size
    for sign in (-1, 1):
        upright = box((board, height, depth), (sign * (width - board) / 2, base + height / 2, 0))
        bench.add("body", finish, upright)
        level = base + height / 2 + sign * (height - board) / 2
        bench.add("body", finish, box((width - 2 * board, board, depth), (0, level, 0)))


def rear(
    bench: Workbench, width: float, height: float, centre: Point, body: Finish, seen: frozenset[Side]
) -> None:
    """Close the back with a board, or leave it open and say so."""
    it = subject("rear", "rear", "back side")
    way = bench.pick(("open", "closed", "coloured"))
    bench.tell(it, "shape", "open" if way == "open" else "closed", sides=seen)
    if way != "open":
        finish = body if way == "closed" else bench.finish("plastic", "wood", unlike=[body])
        bench.add("rear", finish, box((width, height, 0.015), centre))
        bench.look(it, finish)


def panel(bench: Workbench, width: float, height: float, centre: Point, body: Finish) -> None:
    """A board of another colour on the back, seen only from there."""
    finish = bench.finish("plastic", "wood", "fabric", unlike=[body])
    bench.add("panel", finish, box((width, height, 0.012), centre))
    it = bench.look(subject("panel", "panel", "patch"), finish)
    bench.tell(it, "place", "on the back", "on its back", "behind")
