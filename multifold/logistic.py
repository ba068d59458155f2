"""A logistic curve of several facts, near one that is known before."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float64

Curve: TypeAlias = Float64[np.ndarray, " f"]
STEPS = 40  # of Newton's method at most, and halvings of one
SETTLED = 1e-6  # nats by which a step must make the fit better


def fit_logistic(
    facts: Float64[np.ndarray, "n f"],
    right: Bool[np.ndarray, " n"],
    counts: Float64[np.ndarray, " n"],  # how much each row counts
    prior: Curve,
    spread: float,  # how far a fit may carry each number of the prior (std. dev.)
    rising: Bool[np.ndarray, " f"],  # facts of which more never makes less likely
) -> Curve:
    """The likeliest curve. A step that makes the fit worse is halved."""
    labels = right.astype(np.float64)
    stiffness = 1 / spread**2

    def loss(curve: Curve) -> float:
        odds = facts @ curve
        misfit = counts @ (np.logaddexp(0, odds) - labels * odds)
        return float(misfit + stiffness * ((curve - prior) ** 2).sum() / 2)

    curve, now = prior, loss(prior)
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-facts @ curve))
        slope = facts.T @ (counts * (chance - labels)) + stiffness * (curve - prior)
        bend = (facts * (counts * chance * (1 - chance))[:, None]).T @ facts + stiffness * np.eye(len(prior))
        free = ~rising | (curve > 0) | (slope < 0)  # the others are solved for without those at their limit
        step = np.zeros(len(prior))
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        moved, after = _moved(curve, step, rising, loss)
        if now - after < SETTLED:
            break
        curve, now = moved, after
    return curve


def _moved(
    curve: Curve, step: Curve, rising: Bool[np.ndarray, " f"], loss: Callable[[Curve], float]
) -> tuple[Curve, float]:
    """The curve after a step, which is halved until it helps, and the loss there."""
    now = loss(curve)
    for _ in range(STEPS):
        moved = np.where(rising, np.maximum(curve - step, 0), curve - step)
        if (after := loss(moved)) < now:
            return moved, after
        step = step / 2
    return curve, now
