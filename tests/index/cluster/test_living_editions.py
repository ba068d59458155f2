"""What is known of editions is what the store says, at whatever moment."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index.cluster import living_editions
from index.cluster.living_editions import LivingEditions
from index.store import item_rows
from index.store.store import Store
from tests.index.spaces import SPACE
from tests.index.things import thing


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "store.sqlite", SPACE.vector_id)) as opened:
        yield opened


def write(store: Store, *names: int) -> None:
    rng = np.random.default_rng(0)
    store.upsert([thing(f"item {name}", rng) for name in names])


def alive(living: LivingEditions, store: Store, *, until: int = 20) -> set[int]:
    with store.moment() as now:
        every = range(1, until)
        found = living.among(now, every)
        assert found == {*item_rows.living_editions(now, every)}
        return found


def test_it_follows_what_is_written_and_removed(store: Store) -> None:
    living = LivingEditions()
    write(store, 1, 2, 3)
    assert alive(living, store) == {1, 2, 3}
    write(store, 2)
    assert alive(living, store) == {1, 3, 4}
    store.delete(["item 1"])
    write(store, 1)
    assert alive(living, store) == {3, 4, 6}
    store.delete(["item 3"])
    store.prune(0)
    assert alive(living, store) == {4, 6}


def test_an_earlier_moment_sees_what_has_ended_since(store: Store) -> None:
    living = LivingEditions()
    write(store, 1, 2)
    with store.moment() as now, ThreadPoolExecutor(1) as others:
        assert living.among(now, [1, 2]) == {1, 2}
        others.submit(store.delete, ["item 1"]).result()
        assert others.submit(alive, living, store).result() == {2}
        assert living.among(now, [1, 2]) == {1, 2}
    assert alive(living, store) == {2}


def test_what_is_known_is_not_asked_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read = list[int](), item_rows.living_editions

    def counted(now: object, editions: list[int]) -> list[int]:
        asked.extend(editions)
        return read(now, editions)  # type: ignore[arg-type]

    monkeypatch.setattr(living_editions, "living_editions", counted)
    living = LivingEditions()
    write(store, 1, 2, 3)
    for _ in range(2):
        with store.moment() as now:
            assert living.among(now, [1, 2, 3]) == {1, 2, 3}
    assert asked == [1, 2, 3]
    write(store, 4)
    with store.moment() as now:
        assert living.among(now, [1, 4]) == {1, 4}
    assert asked == [1, 2, 3, 4]
