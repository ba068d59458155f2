"""Standard scores: a score of any unit as standard deviations from what other items usually score."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32

from multifold.compiling import compile_annotated

Values: TypeAlias = Float32[np.ndarray, " n"]
AnyScores: TypeAlias = Float32[np.ndarray, "..."]

LOWEST, HIGHEST = -4.0, 8.0  # standard deviations that count
TELLING = 16  # known scores that tell what is usual; of fewer, where many are missing, deviations count less


def standardise(scores: Values, background: Bool[np.ndarray, " n"]) -> Values:
    """How many deviations of the background each score lies above its median; 0 where it is missing."""
    return standardise_by(scores, scores[background])


def standardise_by(scores: AnyScores, known: AnyScores) -> AnyScores:
    """The same by scores that are known."""
    standard = np.zeros(scores.shape, np.float32)
    _write_standard(np.ravel(scores), np.ravel(known), standard.reshape(-1))
    return standard


@compile_annotated("standard")
def _write_standard(
    scores: Float32[np.ndarray, " n"], known: Float32[np.ndarray, " k"], standard: Float32[np.ndarray, " n"]
) -> None:
    """Write the standard scores, and nothing where one is missing."""
    enough = max(1, min(len(known) // 2, TELLING))
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return
    trust = np.float32(min(1.0, len(known) / enough))
    middle = np.float32(np.median(known))
    # a few look-alikes in the background must not widen what is usual
    spread = np.float32(max(1.4826 * np.median(np.abs(known - middle)), np.std(known) / 2, 1e-9))
    for row in range(len(scores)):
        if not np.isnan(scores[row]):
            standard[row] = trust * max(LOWEST, min((scores[row] - middle) / spread, HIGHEST))
