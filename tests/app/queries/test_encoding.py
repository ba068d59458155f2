"""What was used last is kept, as much of it as is asked for."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.queries.encoding import LruCache
from tests.app.house import house


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 6))
def test_it_keeps_those_used_last(keys: list[int], most: int) -> None:
    lru: LruCache[int, int] = LruCache(most)
    used: list[int] = []
    for key in keys:
        assert lru.get(key) == (key * 7 + 1 if key in used[len(used) - min(most, len(used)) :] else None)
        lru.put(key, key * 7 + 1)
        used = [*(one for one in used if one != key), key]
        assert len(lru) == min(most, len(used))
    assert lru.hits + lru.misses == len(keys)


def test_a_service_that_keeps_nothing_encodes_each_time(tmp_path: Path, bundle: Path) -> None:
    for kept, hits in ((0, 0), (10, 1)):
        with house(tmp_path / str(kept), bundle, cache=kept) as shop:
            shop.fill("red")
            assert [shop.best(text="a red box") for _ in range(2)] == ["red-box"] * 2
            metrics = shop.client.get("/metrics").text
            assert f'multifold_cache_requests_total{{result="hit"}} {hits}.0' in metrics
            reader = shop.service.encoder.reader
            assert reader is None or reader.kept == kept
