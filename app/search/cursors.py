"""Cursors, which begin the following page of one list or search, and of no other."""

import base64
import json
import zlib
from dataclasses import fields
from functools import lru_cache
from typing import Any

from app.errors import ApiError

# Of a body, whatever it is a page of; the others say that.
PAGE_FIELDS = ("limit", "offset", "after", "fields", "consistency", "seen")
NO_CURSOR = "'after' is not the 'next' of an answer"
CURSOR_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def checksum_body(route: str, collection: str, body: Any, kind: type | None = None) -> int:  # noqa: ANN401 (dataclasses)
    """What a cursor belongs to: a route, a collection and all that a body asks for, but for the page.

    Of a body that is more, only the fields of a `kind` count.
    """
    asked = [(name, getattr(body, name)) for name in _asked_fields(kind or type(body))]
    return zlib.crc32(repr((route, collection, asked)).encode(errors="surrogatepass"))


@lru_cache
def _asked_fields(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.name not in PAGE_FIELDS)


def write_cursor(belongs: int, *place: int | str) -> str:
    """A cursor of what has this checksum, which says where a page ended."""
    text = CURSOR_JSON.encode([belongs, *place])
    return base64.urlsafe_b64encode(text.encode(errors="surrogatepass")).decode().rstrip("=")


def read_cursor(cursor: str, belongs: int, *kinds: type) -> list[Any]:
    """Where a page ended, in values of these kinds; a cursor of something else is refused."""
    found, place = _decode(cursor)
    if found != belongs:
        raise ApiError(422, "bad_cursor", "'after' belongs to another list or search; begin without it")
    if [*map(type, place)] != [*kinds]:
        raise ApiError(422, "bad_cursor", NO_CURSOR)
    return place


def _decode(cursor: str) -> tuple[int, list[Any]]:
    try:
        belongs, *place = json.loads(base64.urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}"))
    except (ValueError, TypeError, RecursionError):
        belongs, place = None, []
    if type(belongs) is not int:
        raise ApiError(422, "bad_cursor", NO_CURSOR)
    return belongs, place


def read_mark(cursor: str | None, belongs: int) -> str | None:
    """Where a page of a list ended: a text, or nothing before the first page."""
    return None if cursor is None else str(read_cursor(cursor, belongs, str)[0])


def write_mark(mark: str | None, belongs: int) -> str | None:
    """The cursor that says so; none after the last page."""
    return None if mark is None else write_cursor(belongs, mark)
