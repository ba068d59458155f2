"""How sure a hit is: the bundle's calibration, where the question is one that it knows."""

from collections.abc import Mapping

from index.searching import Calibration, Values
from multifold.calibration import Curve, name
from multifold.types import SIDES, Pool, Side


def of(curves: Mapping[str, Curve], asked: Side | None, pool: Pool) -> Calibration | None:
    """What the index asks for the confidence of scores; None if no side is calibrated for this."""
    if asked is None:
        return None
    mine = {side: curves[pair] for side in SIDES if (pair := name(asked, side, pool)) in curves}
    if not mine:
        return None

    def told(side: Side, scores: Values, gallery: int) -> Values | None:
        curve = mine.get(side)
        return None if curve is None else curve.confidence(scores, gallery)

    return told
