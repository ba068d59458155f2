"""Scores of any unit as standard deviations from what strangers score."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32

LOWEST, HIGHEST = -4.0, 8.0  # standard deviations that count

Values: TypeAlias = Float32[np.ndarray, " n"]


def standardise(scores: Values, strangers: Bool[np.ndarray, " n"]) -> Values:
    """How many standard deviations of strangers each score lies above their median; 0 where it is missing."""
    known = scores[strangers]
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return np.zeros(len(scores), np.float32)
    middle = _median(known)
    # a few look-alikes among the strangers must not widen what is usual
    spread = max(1.4826 * _median(np.abs(known - middle)), float(known.std()) / 2, 1e-9)
    standard = np.clip((scores - np.float32(middle)) / np.float32(spread), LOWEST, HIGHEST)
    standard[np.isnan(standard)] = 0.0
    return standard


def _median(values: Values) -> float:
    """The median of a few numbers, in a small part of the time that numpy takes."""
    ordered = np.sort(values)
    return (float(ordered[(len(ordered) - 1) // 2]) + float(ordered[len(ordered) // 2])) / 2
