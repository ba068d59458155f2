"""A page ends with a number of hits, or with a size, and the next one goes on behind it."""

import numpy as np
import pytest

from app.queries.parts import TextQueryPart
from app.search import paging
from app.search.paging import SearchPage
from multifold.types import Hit, Observation
from multifold.wire.search import SearchOptions

PARTS = ((TextQueryPart("red"), 1.0),)
CAPTION = Observation("caption", 0, np.ones(2, np.float32), "red")


def hits(count: int, letters: int) -> list[Hit]:
    return [Hit(f"n{n}", 1.0, "text", CAPTION, {"long": "x" * letters}) for n in range(count)]


def test_pages_of_long_payloads_are_short_and_continue_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 1_000)
    every = hits(9, 400)
    seen: list[str] = []
    after = None
    for size in (3, 3, 3):
        page = SearchPage.of(PARTS, SearchOptions(limit=9, after=after))
        first, limit = page.window
        found, after = page.cut(every[first : first + limit], first)
        assert len(found) == size
        seen += [hit.id for hit in found]
    assert seen == [hit.id for hit in every]
    assert after is None


def test_what_is_longer_than_a_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 10)
    found, after = SearchPage.of(PARTS, SearchOptions(limit=3)).cut(hits(3, 400), 0)
    assert (len(found), after is None) == (1, False)


@pytest.mark.parametrize("fields", [[], ["words"], ["payload.short"]])
def test_pages_without_payloads_are_whole(monkeypatch: pytest.MonkeyPatch, fields: list[str]) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 10)
    found, _ = SearchPage.of(PARTS, SearchOptions(limit=3, fields=fields)).cut(hits(3, 400), 0)
    assert len(found) == 3
    some, _ = SearchPage.of(PARTS, SearchOptions(limit=3, fields=["payload.long"])).cut(hits(3, 400), 0)
    assert len(some) == 1  # a key may be as long as all of it
