"""Places by vector and places by words as one answer, by reciprocal rank. Pure.

An item counts 1 / (60 + rank) for the vector and weight / (60 + rank) for the words. The vector's rank of an
item that words name counts down to the 200th place alone: so every page of an answer is of the same order,
however far each had to look. Scores, confidence and the matched observation stay the vector's.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

from index.merging import LEVEL, R

DEPTH = 200  # so far down do ranks of either kind count where words name an item


def fused(near: Sequence[R], named: Sequence[R], weight: float) -> list[R]:
    """Each item once, best first; ties go to what words name."""
    places: dict[Hashable, R] = {}
    counted: dict[Hashable, float] = {}
    by_words = {place.id: rank for rank, place in enumerate(named[:DEPTH], 1)}
    for rank, place in enumerate(near, 1):
        places[place.id] = place
        counted[place.id] = 0.0 if place.id in by_words and rank > DEPTH else 1 / (LEVEL + rank)
    for place in named[:DEPTH]:
        places[place.id] = replace(places.get(place.id, place), words=place.words)
        counted[place.id] = counted.get(place.id, 0.0) + weight / (LEVEL + by_words[place.id])
    return [places[one] for one in sorted(counted, key=lambda one: (-counted[one], one not in by_words))]
