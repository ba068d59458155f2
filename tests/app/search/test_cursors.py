"""A cursor is taken where it came from, and nowhere else."""

from dataclasses import replace
from typing import Any

import pytest

from app.errors import ApiError
from app.search.cursors import checksum_body, read_cursor, read_mark, write_cursor, write_mark
from multifold.wire.items import ItemScrollBody
from tests.app.answers import refused
from tests.app.house import House

BODY = ItemScrollBody(filter={"colour": "red"}, sort="newest")
HERE = checksum_body("items", "default", BODY)
PAGES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/items/scroll", {}),
    ("/v1/items/scroll", {"sort": "newest"}),
    ("/v1/items/scroll", {"sort": "newest", "filter": {"is": {"in": ["red", "blue"]}}}),
    ("/v1/search", {"text": "a red box", "target": "text"}),
    ("/v1/search", {"id": "red-box", "target": "text"}),
    ("/v1/items/red-box/similar", {"target": "text"}),
    ("/v1/items/blue-box/similar", {"target": "text"}),
    ("/v1/items/tags:propose", {"labels": ["red", "blue"]}),
]


@pytest.mark.parametrize("mark", ["a", "é\ud800", '5 "x"', ""])
def test_a_mark_is_read_as_it_was_written(mark: str) -> None:
    assert read_mark(write_mark(mark, HERE), HERE) == mark
    assert write_mark(None, HERE) is None
    assert read_mark(None, HERE) is None


def test_it_belongs_to_all_that_was_asked_but_not_to_the_page() -> None:
    assert checksum_body("items", "default", replace(BODY, limit=3, after="x")) == HERE
    others = [
        checksum_body("tags", "default", BODY),
        checksum_body("items", "other", BODY),
        checksum_body("items", "default", replace(BODY, sort="id")),
        checksum_body("items", "default", replace(BODY, filter=None)),
    ]
    assert len({HERE, *others}) == 5
    for other in others:
        with pytest.raises(ApiError, match="belongs to another list or search"):
            read_mark(write_mark("a", other), HERE)


@pytest.mark.parametrize("cursor", ["", "nonsense", "\u00e9", "e30", "MQ", "WyJhIiwiYSJd", "[1]"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    """Among them are an object, a number, a list that begins with a text, and one that is not encoded."""
    with pytest.raises(ApiError, match="is not the 'next' of an answer"):
        read_mark(cursor, HERE)


def test_places_have_their_kinds() -> None:
    cursor = write_cursor(HERE, 3, "a")
    assert read_cursor(cursor, HERE, int, str) == [3, "a"]
    for kinds in ((str, str), (int,), (int, str, str)):
        with pytest.raises(ApiError, match="is not the 'next'"):
            read_cursor(cursor, HERE, *kinds)


def test_no_page_of_the_service_continues_another(shop: House) -> None:
    cursors = []
    for path, asked in PAGES:
        answer = shop.client.post(path, json={**asked, "limit": 1})
        assert answer.status_code == 200, (path, answer.text)
        assert answer.json()["next"], path
        cursors.append(answer.json()["next"])
    for path, asked in PAGES:
        for (other, of), cursor in zip(PAGES, cursors, strict=True):
            answer = shop.client.post(path, json={**asked, "limit": 1, "after": cursor})
            if (path, asked) == (other, of):
                assert answer.status_code == 200, (path, answer.text)
            else:
                refused(answer, 422, "bad_cursor", "another list or search")
