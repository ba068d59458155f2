"""Row numbers: what an engine knows instead of items.

Each change of an item makes a new *edition* of it, numbered by the change's sequence number. The rows of an
edition are edition·2²⁰ + place: its observations from place 0 up, its pooled rows (one a side) from the top
down. So a row names its item and its generation, is never used twice, and rows of one edition lie together.
"""

from typing import TypeVar

import numpy as np
from jaxtyping import Int64

from multifold.types import SIDES, Side

BITS = 20
PLACES = 1 << BITS
MOST_OBSERVATIONS = PLACES - len(SIDES)

Editions = TypeVar("Editions", int, Int64[np.ndarray, " b"])


def first_row(edition: Editions) -> Editions:
    """The row of an edition's first observation; the others follow it."""
    return edition << BITS


def pooled_row(edition: Editions, side: Side) -> Editions:
    """The row of the pooled observations of one side."""
    return (edition << BITS) + PLACES - 1 - SIDES.index(side)


def edition_of(rows: Editions) -> Editions:
    """The edition that rows belong to."""
    return rows >> BITS


def observation_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    """The rows of an edition's observations."""
    return np.arange(size, dtype=np.int64) + first_row(edition)


def rows_of(editions: Int64[np.ndarray, " e"], sizes: Int64[np.ndarray, " e"]) -> Int64[np.ndarray, " b"]:
    """The rows of all observations of rising editions, rising."""
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.asarray(np.repeat(first_row(editions), sizes) + places)


def all_rows(edition: int, size: int) -> Int64[np.ndarray, " b"]:
    """Every row that an edition of `size` observations can have in any engine."""
    pooled = np.array([pooled_row(edition, side) for side in SIDES], np.int64)
    return np.concatenate([observation_rows(edition, size), pooled])
