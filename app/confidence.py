"""How sure a hit is: the bundle's calibration, where the question is one that it knows."""

from collections.abc import Mapping

import numpy as np

from index.collection import Calibration
from multifold.calibration import Curve, name
from multifold.types import SIDES, Pool, Side


def of(curves: Mapping[str, Curve], asked: Side | None, pool: Pool) -> Calibration | None:
    """What the index asks for the confidence of a score; None if no side is calibrated for this."""
    if asked is None:
        return None
    mine = {side: curves[pair] for side in SIDES if (pair := name(asked, side, pool)) in curves}
    if not mine:
        return None

    def told(side: Side, score: float, gallery: int) -> float | None:
        curve = mine.get(side)
        return None if curve is None else float(curve.confidence(np.array([score]), gallery)[0])

    return told
