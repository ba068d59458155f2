"""How sure a hit is: the bundle's calibration, where the question is one that it knows."""

from collections.abc import Mapping

import numpy as np

from app.errors import ApiError
from app.questions import Options, Question
from index.collection import Calibration
from multifold.calibration import Curve, name
from multifold.types import SIDES, Hit, Pool, Side


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


def check(curves: Mapping[str, Curve], question: Question) -> None:
    """Refuse a threshold on a confidence that nobody knows."""
    options = question.options
    if options.min_confidence is None:
        return
    targets = SIDES if options.target == "any" else (options.target,)
    asked = question.side
    if asked is None or not any(name(asked, side, options.pool) in curves for side in targets):
        sentence = "no confidence is known for this: it needs one text, image or mesh, and a bundle that is "
        raise ApiError(422, "no_calibration", f"{sentence}calibrated for it; use 'min_score' instead")


def passes(hit: Hit, options: Options) -> bool:
    """Whether a hit is good enough for those who asked."""
    if options.min_score is not None and hit.score < options.min_score:
        return False
    least = options.min_confidence
    return least is None or (hit.confidence is not None and hit.confidence >= least)
