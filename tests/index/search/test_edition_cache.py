"""What pages read is kept, but for what was replaced or deleted, and for what there is no room for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from index.search.edition_cache import ENTRY, EditionCache, size_of
from index.store.browse import editions_of
from index.store.item_rows import first_row, read_observations, read_summaries
from multifold.types import Item
from tests.index.coloured import find
from tests.index.spaces import SPACE
from tests.index.things import caption, feature, view

NAMES = [f"item {n}" for n in range(8)]


def made(name: str, note: str) -> Item:
    return Item(name, (view(0, feature(1)), caption(0, feature(0, 1), f"{name}, {note}")), {"note": note})


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE) as opened:
        opened.upsert([made(name, "first") for name in NAMES])
        yield opened


def notes(collection: Collection) -> dict[str, str]:
    return {hit.id: hit.payload["note"] for hit in find(collection, feature(1))}


def test_it_has_what_the_store_has_and_reads_it_once(collection: Collection) -> None:
    cache = EditionCache()
    with collection.scoring() as (_, now):
        editions = sorted(editions_of(now, NAMES).values())
        rows = [first_row(edition) + place for edition in editions for place in (0, 1)]
        for some in (editions[:3], editions, editions[2:5]):
            assert cache.summaries(now, [*some, 10**6]) == read_summaries(now, some)
        observations = cache.observations(now, rows)
        assert {row: one.text for row, one in observations.items()} == {
            row: one.text for row, one in read_observations(now, rows).items()
        }
        size = cache.nbytes
        again = cache.observations(now, rows)
        assert all(again[row] is one for row, one in observations.items())
        assert cache.summaries(now, editions).keys() == set(editions)
        assert cache.nbytes == size
        summaries = cache.summaries(now, editions).values()
        assert size == sum(map(size_of, summaries)) + sum(map(size_of, again.values()))


def test_what_is_replaced_or_deleted_is_not_found_as_it_was(collection: Collection) -> None:
    assert notes(collection) == dict.fromkeys(NAMES, "first")
    collection.upsert([made(NAMES[0], "second")])
    collection.delete(NAMES[6:])
    assert notes(collection) == {NAMES[0]: "second"} | dict.fromkeys(NAMES[1:6], "first")


def test_it_is_asked_what_is_there_unless_nothing_was_changed(collection: Collection) -> None:
    cache = EditionCache()
    with collection.scoring() as (searcher, now):
        editions = sorted(editions_of(now, NAMES).values())
        assert cache.summaries(now, editions, newest=True) == read_summaries(now, editions)
    searcher.store.delete(NAMES[:2])
    with searcher.store.moment() as now:
        assert [*cache.summaries(now, editions)] == editions[2:]
        assert [*cache.summaries(now, editions, newest=True)] == editions  # as it was told


def test_what_the_store_alone_knows_to_be_deleted_is_not_found(collection: Collection) -> None:
    assert len(notes(collection)) == len(NAMES)
    with collection.scoring() as (searcher, _):
        store = searcher.store
    store.delete(NAMES[:2])  # as by a writer that was stopped before its indexes knew
    assert [*sorted(notes(collection))] == NAMES[2:]


@pytest.mark.parametrize("most", [0, ENTRY, 4 * ENTRY, 40 * ENTRY])
def test_it_takes_no_more_than_there_is_room_for(collection: Collection, most: int) -> None:
    cache = EditionCache(most)
    with collection.scoring() as (_, now):
        editions = sorted(editions_of(now, NAMES).values())
        for _ in range(3):
            for edition in editions:
                assert cache.summaries(now, [edition]) == read_summaries(now, [edition])
                assert cache.observations(now, [first_row(edition)]).keys() == {first_row(edition)}
                assert cache.nbytes <= most
