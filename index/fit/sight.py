"""Whether an encoder sees the pictures of a collection: whether texts about an item find its pictures.

Other pictures of the same thing prove nothing: any encoder finds them, even one of random weights.
"""

from collections.abc import Sequence

import numpy as np

from index.fit.trials import Trial
from index.legs.table import DECLARED
from index.legs.vectors import SCORE

MEASURED_TEXTS = 8  # texts by which it is measured
CLEAR = 0.3  # from here a picture is trusted: its texts are nearer to it than to 0.65 of the others
FEWEST_OTHERS = 8  # pictures among which one is looked for
SIGHT_ERRORS = 2.0  # standard errors by which it may be less than was measured


def measure_sight(trials: Sequence[Trial]) -> float | None:
    """From 0, an encoder that sees nothing, to 1; None if too few items have a text and a picture."""
    asked = [trial for trial in trials if trial.kind.hides == "every text"]
    shares = np.array([share for trial in asked for share in _shares_behind(trial)])
    if len(shares) < MEASURED_TEXTS:
        return None
    above_chance = 2 * shares.mean() - 1
    error = 2 * shares.std() / np.sqrt(len(shares))
    return round(float(np.clip((above_chance - SIGHT_ERRORS * error) / CLEAR, 0, 1)), 4)


def _shares_behind(trial: Trial) -> list[float]:
    """The shares of other items whose pictures are further from the text than its own, by kind of picture."""
    scores, shares = trial.scores, []
    place = int(np.searchsorted(scores.editions, trial.owner))
    for leg in (leg.name for leg in DECLARED if leg.bare is not None and leg.name in scores.raw):
        near = scores.raw[leg][:, SCORE]
        others = near[scores.background & ~trial.right & ~np.isnan(near)]
        if not np.isnan(near[place]) and len(others) >= FEWEST_OTHERS:
            behind = np.mean(others < near[place]) + np.mean(others == near[place]) / 2
            shares.append(float(behind))
    return shares
