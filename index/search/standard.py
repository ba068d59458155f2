"""Standard scores: a score of any unit as standard deviations from what other items usually score."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32

Values: TypeAlias = Float32[np.ndarray, " n"]
AnyScores: TypeAlias = Float32[np.ndarray, "..."]

LOWEST, HIGHEST = -4.0, 8.0  # standard deviations that count


def standardise(scores: Values, background: Bool[np.ndarray, " n"]) -> Values:
    """How many deviations of the background each score lies above its median; 0 where it is missing."""
    return standardise_by(scores, scores[background])


def standardise_by(scores: AnyScores, known: AnyScores) -> AnyScores:
    """The same by scores that are known."""
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return np.zeros(scores.shape, np.float32)
    middle = _median(known)
    # a few look-alikes in the background must not widen what is usual
    spread = max(1.4826 * _median(np.abs(known - middle)), float(known.std()) / 2, 1e-9)
    standard: AnyScores = np.clip((scores - np.float32(middle)) / np.float32(spread), LOWEST, HIGHEST)
    standard[np.isnan(standard)] = 0.0
    return standard


def _median(values: Float32[np.ndarray, " k"]) -> float:
    """The median of a few numbers, in a small part of the time that numpy takes."""
    ordered = np.sort(values)
    return (float(ordered[(len(ordered) - 1) // 2]) + float(ordered[len(ordered) // 2])) / 2
