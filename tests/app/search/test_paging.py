"""A page ends with a number of hits, or with a size, and the next one goes on behind it."""

import numpy as np
import pytest

from app.queries.parts import TextQueryPart
from app.search.paging import SearchPage
from index.store.browse import PAGE_BYTES
from multifold.types import Hit, Observation
from multifold.wire.search import SearchOptions

PARTS = ((TextQueryPart("red"), 1.0),)
HERE = "search", "default", PARTS
CAPTION = Observation("caption", 0, np.ones(2, np.float32), "red")


def hits(count: int, letters: int) -> list[Hit]:
    return [Hit(f"n{n}", 1.0, "text", CAPTION, {"long": "x" * letters}) for n in range(count)]


def test_pages_of_long_payloads_are_short_and_continue_one_another() -> None:
    every = hits(9, 400)
    seen: list[str] = []
    after = None
    for size in (3, 3, 3):
        page = SearchPage.of(*HERE, SearchOptions(limit=9, after=after), sharing=PAGE_BYTES // 1_000)
        first, limit = page.window
        found, after = page.cut(every[first : first + limit], first)
        assert len(found) == size
        seen += [hit.id for hit in found]
    assert seen == [hit.id for hit in every]
    assert after is None


def test_what_is_longer_than_a_page_is_one() -> None:
    found, after = SearchPage.of(*HERE, SearchOptions(limit=3), sharing=PAGE_BYTES // 10).cut(hits(3, 400), 0)
    assert (len(found), after is None) == (1, False)


@pytest.mark.parametrize("fields", [[], ["words"], ["payload.short"]])
def test_pages_without_payloads_are_whole(fields: list[str]) -> None:
    found, _ = SearchPage.of(*HERE, SearchOptions(limit=3, fields=fields), sharing=PAGE_BYTES // 10).cut(
        hits(3, 400), 0
    )
    assert len(found) == 3
    some, _ = SearchPage.of(
        *HERE, SearchOptions(limit=3, fields=["payload.long"]), sharing=PAGE_BYTES // 10
    ).cut(hits(3, 400), 0)
    assert len(some) == 1  # a key may be as long as all of it
