"""Logistic models near one that is known before: of what is right or not, and of one among several."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64

Weights: TypeAlias = Float64[np.ndarray, " w"]
Derivatives: TypeAlias = Callable[[Weights], tuple[Weights, Float64[np.ndarray, "w w"]]]  # slope and bend
Step: TypeAlias = Callable[[Weights, Weights], Weights | None]  # from some weights by a step; None ends
NEWTON_STEPS = 40  # of Newton's method at most, and halvings of one
SETTLED = 1e-6  # nats by which a step must make a fit better
LONGEST_STEP = 1.0  # of a weight


def newton(start: Weights, derivatives: Derivatives, least: Weights, step: Step) -> Weights:
    """The weights at which a loss is least, none below its least value, by steps of Newton's method.

    Others are solved for without those that stay at their least value.
    """
    weights = start
    for _ in range(NEWTON_STEPS):
        slope, bend = derivatives(weights)
        free = (weights > least) | (slope < 0)
        full = np.zeros(len(weights))
        full[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        moved = step(weights, full)
        if moved is None:
            break
        weights = moved
    return weights


def steps_until(near: float, least: Weights) -> Step:
    """Short steps, which end where none changes a weight by so much."""

    def step(weights: Weights, full: Weights) -> Weights | None:
        moved = np.maximum(weights - np.clip(full, -LONGEST_STEP, LONGEST_STEP), least)
        return None if np.abs(moved - weights).max(initial=0) < near else moved

    return step


def steps_down(loss: Callable[[Weights], float], least: Weights) -> Step:
    """Steps that are halved until they help, which end where none helps by `SETTLED`."""

    def step(weights: Weights, full: Weights) -> Weights | None:
        now = loss(weights)
        for _ in range(NEWTON_STEPS):
            moved = np.maximum(weights - full, least)
            if (after := loss(moved)) < now:
                return None if now - after < SETTLED else moved
            full = full / 2
        return None

    return step


def softmax(evidence: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
    """How likely each of several is, of evidence in nats."""
    likely = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    shares: Float64[np.ndarray, "n c"] = likely / likely.sum(axis=1, keepdims=True)
    return shares


def moments(
    values: Float[np.ndarray, "n c w"],
    shares: Float64[np.ndarray, "n c"],
    counts: Float64[np.ndarray, " n"],
) -> tuple[Float64[np.ndarray, "n w"], Float64[np.ndarray, "w w"]]:
    """The mean of values that are so likely, and how they vary about it: of all, by how much each counts.

    They are the slope and the bend of the likelihood of one among several.
    """
    mean = np.einsum("nc,ncw->nw", shares, values)
    rows = (shares.size, values.shape[2])
    weighted = (values * (counts[:, None] * shares)[:, :, None]).reshape(rows)
    return mean, weighted.T @ values.reshape(rows) - (counts[:, None] * mean).T @ mean


def fit_logistic(
    facts: Float64[np.ndarray, "n f"],
    right: Bool[np.ndarray, " n"],
    counts: Float64[np.ndarray, " n"],  # how much each row counts
    prior: Float64[np.ndarray, " f"],
    spread: float,  # how far a fit may carry each number of the prior (std. dev.)
    rising: Bool[np.ndarray, " f"],  # facts of which more never makes less likely
) -> Float64[np.ndarray, " f"]:
    """The likeliest curve of what is right or not."""
    labels = right.astype(np.float64)
    stiffness = 1 / spread**2
    least = np.where(rising, 0.0, -np.inf)

    def loss(curve: Weights) -> float:
        odds = facts @ curve
        misfit = counts @ (np.logaddexp(0, odds) - labels * odds)
        return float(misfit + stiffness * ((curve - prior) ** 2).sum() / 2)

    def derivatives(curve: Weights) -> tuple[Weights, Float64[np.ndarray, "w w"]]:
        chance = 1 / (1 + np.exp(-facts @ curve))
        slope = facts.T @ (counts * (chance - labels)) + stiffness * (curve - prior)
        bend = (facts * (counts * chance * (1 - chance))[:, None]).T @ facts
        return slope, bend + stiffness * np.eye(len(prior))

    return newton(prior, derivatives, least, steps_down(loss, least))
