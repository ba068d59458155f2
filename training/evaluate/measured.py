"""What was measured, as JSON that a report is made of."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from multifold.manifest import Entry
from multifold.metrics import ranks, recall_at_k
from training.evaluate.protocols import Protocol
from training.evaluate.retrieval import CUTS, Direction, Pooling, numbers

Ask: TypeAlias = Callable[[str, Pooling], Direction | None]
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
OTHER = "(none)"


def retrieval(protocol: Protocol, entries: Sequence[Entry], ask: Ask, label: str | None) -> dict[str, Any]:
    """Every direction and pool that can be asked: numbers, a curve, and recalls by category."""
    told: dict[str, Any] = {}
    for name, pool in protocol.keys:
        asked = ask(name, pool)
        if asked is None or not len(asked.scores):
            continue
        found = ranks(asked.scores, asked.relevant)
        mine = numbers(asked)
        mine["curve"] = {str(k): round(float(recall_at_k(found, k).mean()), 4) for k in CURVE}
        if label is not None:
            mine["categories"] = _categories(found, [category(entries[item], label) for item in asked.items])
        told.setdefault(name, {})[pool] = mine
    return told


def category(entry: Entry, label: str) -> str:
    """What an item's metadata says under a key."""
    return str(entry.meta.get(label, OTHER))


def _categories(found: np.ndarray, of: Sequence[str]) -> dict[str, Any]:
    """Recalls of the queries of each category, against the whole gallery."""
    kinds = np.array(of)
    return {
        str(kind): {"queries": int((kinds == kind).sum())}
        | {f"R@{k}": round(float(recall_at_k(found[kinds == kind], k).mean()), 4) for k in CUTS}
        for kind in np.unique(kinds)
    }
