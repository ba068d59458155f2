"""Hits by vector and hits by words as one answer, by reciprocal rank. Pure.

An item counts 1 / (60 + rank) for the vector and weight / (60 + rank) for the words. The vector's rank of an
item that words name counts down to the 200th place alone: so every page of an answer is of the same order,
however far each had to look. Scores, confidence and the matched observation stay the vector's.
"""

from collections.abc import Sequence
from dataclasses import replace

from index.merging import LEVEL
from multifold.types import Hit

DEPTH = 200  # so far down do ranks of either kind count where words name an item


def fused(near: Sequence[Hit], named: Sequence[Hit], weight: float) -> list[Hit]:
    """Each item once, best first; ties go to what words name."""
    hits: dict[str, Hit] = {}
    counted: dict[str, float] = {}
    by_words = {hit.id: rank for rank, hit in enumerate(named[:DEPTH], 1)}
    for rank, hit in enumerate(near, 1):
        hits[hit.id] = hit
        counted[hit.id] = 0.0 if hit.id in by_words and rank > DEPTH else 1 / (LEVEL + rank)
    for hit in named[:DEPTH]:
        hits[hit.id] = replace(hits.get(hit.id, hit), words=hit.words)
        counted[hit.id] = counted.get(hit.id, 0.0) + weight / (LEVEL + by_words[hit.id])
    return [hits[name] for name in sorted(counted, key=lambda name: (-counted[name], name not in by_words))]
