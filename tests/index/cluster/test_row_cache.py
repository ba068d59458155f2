"""Vectors that were sent once."""

import numpy as np

from index.cluster.row_cache import RowCache


def vectors_of(rows: list[int], dim: int = 4) -> np.ndarray:
    return np.repeat(np.array(rows, np.float32)[:, None], dim, axis=1)


def found(cache: RowCache, rows: list[int]) -> list[int]:
    known, vectors = cache.find(np.array(rows, np.int64))
    kept: list[int] = np.array(rows, np.int64)[known].tolist()
    assert np.array_equal(vectors, vectors_of(kept))
    return kept


def test_what_is_kept_is_found_in_any_order_and_among_others() -> None:
    cache = RowCache(4)
    cache.keep(np.array([7, 3]), vectors_of([7, 3]))
    cache.keep(np.array([9, 7]), vectors_of([9, 7]))
    assert found(cache, [9, 1, 3, 7]) == [9, 3, 7]
    assert found(cache, []) == []
    cache.forget(np.array([3, 1]))
    assert found(cache, [3, 7]) == [7]


def test_all_go_when_they_are_too_many() -> None:
    cache = RowCache(4, most_bytes=4 * 4 * 1000)
    for first in range(0, 900, 300):
        rows = list(range(first, first + 300))
        cache.keep(np.array(rows), vectors_of(rows))
    assert len(found(cache, list(range(900)))) == 900
    more = list(range(5000, 5200))
    cache.keep(np.array(more), vectors_of(more))
    assert found(cache, [*range(900), *more]) == more
    many = list(range(10_000, 12_000))
    cache.keep(np.array(many), vectors_of(many))
    assert len(found(cache, many)) == 1000
