"""The weights of the legs under which the right items are likeliest."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32, Float64

from index.fit.trials import Trial
from index.legs.table import BARE, BY_NAME, COLUMNS, DECLARED
from index.search.model import PRIOR_SPREAD, Weights
from multifold.logistic import moments, newton, softmax, steps_until
from multifold.types import Leg

SETTLED_CHANGE = 1e-3  # the change of a weight at which a fit ends
SMALLEST_WEIGHT = 1e-30  # against 0/0


def teaching(trials: Sequence[Trial]) -> Sequence[Trial]:
    """Those that weights are fitted on."""
    if _hides_captions(trials):
        return trials
    if has_lone_captions(trials):
        return []
    return [trial for trial in trials if not trial.kind.needs_captions]


def has_lone_captions(trials: Sequence[Trial]) -> bool:
    """Whether items have captions, and none has two. Then a question either is what its item says, or asks
    for one that says nothing meanwhile: neither is like what people ask.
    """
    return not _hides_captions(trials) and any(trial.kind.hides == "every text" for trial in trials)


def _hides_captions(trials: Sequence[Trial]) -> bool:
    return any(trial.kind.hides == "caption" for trial in trials)


def _counts(trials: Sequence[Trial]) -> Float64[np.ndarray, " t"]:
    """How much each counts for the weights."""
    hides = _hides_captions(trials)
    kinds = [trial.kind for trial in trials]
    return np.array([one.weight * (one.teaches if hides else one.teaches_alone) for one in kinds])


def fit_weights(prior: Weights, trials: Sequence[Trial], legs: Sequence[Leg]) -> Weights:
    """The weights under which the right items are likeliest, near those that hold without a fit.

    Vectors and readers keep at least their prior weight; words may fall, and what pictures are worth alone.
    """
    heard = np.isin(COLUMNS, [column for leg in legs for column in BY_NAME[leg].columns])
    weights = np.where(heard, prior, 0.0)
    if not trials:
        return weights
    falling = BARE | np.isin(COLUMNS, [column for leg in DECLARED if leg.may_fall for column in leg.columns])
    least = np.where(falling, 0.0, prior)[heard]
    every, there, right = _stacked(trials)
    values = every[:, :, heard]
    counts = _counts(trials)
    stiffness = 1 / PRIOR_SPREAD**2

    def derivatives(some: Weights) -> tuple[Weights, Float64[np.ndarray, "w w"]]:
        shares = softmax(np.where(there, values @ some, -np.inf))
        of_right = np.where(right, shares, 0)
        of_right /= of_right.sum(axis=1, keepdims=True) + SMALLEST_WEIGHT
        mean, bend = moments(values, shares, counts)
        slope = counts @ (mean - np.einsum("tn,tnw->tw", of_right, values))
        return slope + stiffness * (some - prior[heard]), bend + stiffness * np.eye(len(some))

    weights[heard] = newton(prior[heard], derivatives, least, steps_until(SETTLED_CHANGE, least))
    return weights


def _stacked(
    trials: Sequence[Trial],
) -> tuple[Float32[np.ndarray, "t n w"], Bool[np.ndarray, "t n"], Bool[np.ndarray, "t n"]]:
    """What is weighted of the candidates of all trials, which are there, and which are right."""
    most = max(int(trial.candidates.sum()) for trial in trials)
    values = np.zeros((len(trials), most, len(COLUMNS)), np.float32)
    there, right = (np.zeros((len(trials), most), np.bool_) for _ in range(2))
    for place, trial in enumerate(trials):
        count = int(trial.candidates.sum())
        values[place, :count] = trial.scores.values[trial.candidates]
        there[place, :count], right[place, :count] = True, trial.right[trial.candidates]
    return values, there, right
