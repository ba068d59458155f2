"""What was used last is kept."""

from hypothesis import given
from hypothesis import strategies as st

from app.queries.encoding import LruCache


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 6))
def test_it_keeps_those_used_last(keys: list[int], most: int) -> None:
    lru: LruCache[int, int] = LruCache(most)
    used: list[int] = []
    for key in keys:
        assert lru.get(key) == (key * 7 + 1 if key in used[-most:] else None)
        lru.put(key, key * 7 + 1)
        used = [*(one for one in used if one != key), key]
        assert len(lru) == min(most, len(used))
    assert lru.hits + lru.misses == len(keys)
