"""Losses once more, in float64 numpy, one exponential at a time: what the fast ones must equal."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int64

Logits = Float64[np.ndarray, "r c"]
Groups = Int64[np.ndarray, " _"]
Direction = Callable[[Logits, Groups, Groups, Logits], float]


def both(direction: Direction, logits: Logits, rows: Groups, columns: Groups, teacher: Logits) -> float:
    """The mean of a direction and of the other one."""
    there = direction(logits, rows, columns, teacher)
    return (there + direction(logits.T, columns, rows, teacher.T)) / 2


def infonce(logits: Logits, rows: Groups, columns: Groups, _: Logits) -> float:
    """The k-th row of an item with its k-th column, against all columns."""
    return _mean([log_sum(row) - row[u] for row, u in _pairs(logits, rows, columns)])


def infonce_mask(logits: Logits, rows: Groups, columns: Groups, _: Logits) -> float:
    """The same against the partner and the columns of other items."""
    values = []
    for r, u in _paired(rows, columns):
        kept = [logits[r, c] for c in range(len(columns)) if c == u or columns[c] != rows[r]]
        values.append(log_sum(kept) - logits[r, u])
    return _mean(values)


def hard(logits: Logits, rows: Groups, columns: Groups, _: Logits) -> float:
    """The expectation of the masked random selection: the mean over every positive of a row."""
    values = []
    for row, group in zip(logits, rows, strict=True):
        positives = [s for s, g in zip(row, columns, strict=True) if g == group]
        negatives = [s for s, g in zip(row, columns, strict=True) if g != group]
        if positives:
            values.append(float(np.mean([log_sum([s, *negatives]) - s for s in positives])))
    return _mean(values)


def all_positives(logits: Logits, rows: Groups, columns: Groups, _: Logits) -> float:
    """Positives share one denominator."""
    values = []
    for row, group in zip(logits, rows, strict=True):
        positives = row[columns == group]
        if len(positives):
            values.append(float(np.mean([log_sum(row) - s for s in positives])))
    return _mean(values)


def soft(logits: Logits, rows: Groups, columns: Groups, teacher: Logits) -> float:
    """Cross-entropy with the teacher's softmax, for rows that have a positive."""
    values = []
    for row, taught, group in zip(logits, teacher, rows, strict=True):
        target = np.exp(taught - log_sum(taught))
        if group in columns:
            values.append(-float(sum(t * (s - log_sum(row)) for t, s in zip(target, row, strict=True))))
    return _mean(values)


def mfh(logits: Logits, rows: Groups, columns: Groups, teacher: Logits) -> float:
    """Six tenths hard, four tenths soft."""
    return 0.6 * hard(logits, rows, columns, teacher) + 0.4 * soft(logits, rows, columns, teacher)


def mfh_even(logits: Logits, rows: Groups, columns: Groups, _: Logits) -> float:
    """Six tenths hard, four tenths soft with a teacher to whom all columns are alike."""
    return mfh(logits, rows, columns, np.zeros_like(logits))


def infonce_soft(logits: Logits, rows: Groups, columns: Groups, teacher: Logits) -> float:
    """Six tenths InfoNCE, four tenths soft, for rows that have a partner."""
    values = []
    for r, u in _paired(rows, columns):
        row, target = logits[r], np.exp(teacher[r] - log_sum(teacher[r]))
        values.append(log_sum(row) - 0.6 * row[u] - 0.4 * float(np.sum(target * row)))
    return _mean(values)


DIRECTIONS: dict[str, Direction] = {
    "infonce": infonce,
    "infonce_mask": infonce_mask,
    "hard": hard,
    "all_positives": all_positives,
    "soft": soft,
    "mfh": mfh,
    "mfh_even": mfh_even,
    "infonce_soft": infonce_soft,
}


def log_sum(values: "list[float] | Float64[np.ndarray, ' _']") -> float:
    """log Σ exp, term by term."""
    most = max(values)
    return float(most + np.log(sum(np.exp(value - most) for value in values)))


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _pairs(logits: Logits, rows: Groups, columns: Groups) -> list[tuple[Float64[np.ndarray, " _"], int]]:
    return [(logits[r], u) for r, u in _paired(rows, columns)]


def _paired(rows: Groups, columns: Groups) -> list[tuple[int, int]]:
    """The k-th row and the k-th column of every item."""
    found = []
    for group in sorted(set(rows.tolist())):
        mine = np.flatnonzero(rows == group).tolist(), np.flatnonzero(columns == group).tolist()
        found += list(zip(*mine, strict=False))
    return found
