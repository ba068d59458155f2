"""Pages of a ranking: which hits are asked for, and cursors that go on after the last of them."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from app.errors import ApiError
from app.queries.parts import ImageQueryPart, MeshQueryPart, QueryPart, WeightedParts
from index.store.browse import PAGE_BYTES
from multifold.types import Hit
from multifold.wire.search import MAX_OFFSET, SearchOptions

OVERLAP = 50  # ranks by which a hit may have moved
HEAD = 4_096  # bytes of a file that tell it from another
PAGE_FIELDS = ("limit", "offset", "after", "fields")  # of a search; the others say what it is a page of
CURSOR_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class SearchPage:
    """Which hits of a ranking are asked for: from an offset, or after the last hit of the page before.

    A cursor names that hit. If the collection changed meanwhile, the page begins behind the hit's present
    rank, if that is at most `OVERLAP` ranks away.
    """

    asked: int  # a checksum of the query: a cursor belongs to it
    place: int  # hits before the page
    limit: int
    last: str | None = None  # the last of them, if a cursor names it
    fields: Sequence[str] = ("payload",)  # of a hit, that are wanted

    @classmethod
    def of(cls, parts: WeightedParts, options: SearchOptions) -> "SearchPage":
        """The page that a search asks for."""
        asked = _checksum(parts, options)
        wanted = ("payload",) if options.fields is None else tuple(options.fields)
        if options.after is None:
            return cls(asked, options.offset, options.limit, fields=wanted)
        query, place, last = _read_cursor(options.after)
        if query != asked:
            raise ApiError(422, "bad_cursor", "'after' belongs to another search; begin without it")
        return cls(asked, place, options.limit, last, wanted)

    @property
    def window(self) -> tuple[int, int]:
        """The offset and the limit of the hits among which the page lies."""
        if self.last is None:
            return self.place, self.limit
        first = max(0, self.place - OVERLAP)
        return first, self.place - first + self.limit + OVERLAP

    def cut(self, hits: Sequence[Hit], first: int) -> tuple[list[Hit], str | None]:
        """The page out of the hits from a rank on, and the cursor of the following one.

        A page of long payloads has fewer hits.
        """
        ids = [hit.id for hit in hits]
        begin = ids.index(self.last) + 1 if self.last in ids else self.place - first
        wanted = [*hits[begin : begin + self.limit]]
        page = wanted[: _count_fitting(wanted, self.fields)]
        end = first + begin + len(page)
        more = (len(page) == self.limit or len(page) < len(wanted)) and end <= MAX_OFFSET
        return page, _write_cursor(self.asked, end, page[-1].id) if more else None


def _count_fitting(hits: Sequence[Hit], fields: Sequence[str]) -> int:
    """How many of the first hits make a page; one at least."""
    size = 0
    for count, hit in enumerate(hits, 1):
        size += len(json.dumps(choose_keys(hit.payload, fields)))
        if size >= PAGE_BYTES:
            return count
    return len(hits)


def choose_keys(payload: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The parts of a payload that are named as `payload.KEY`, where dots lead inwards; with `payload` all."""
    if "payload" in fields:
        return dict(payload)
    chosen: dict[str, Any] = {}
    for name in fields:
        _, *keys = name.split(".")
        value: Any = payload
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if keys and value is not None:
            part = chosen
            for key in keys[:-1]:
                part = part.setdefault(key, {})
            part[keys[-1]] = value
    return chosen


def _write_cursor(asked: int, place: int, last: str) -> str:
    text = CURSOR_JSON.encode([asked, place, last])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[int, int, str]:
    try:
        asked, place, last = json.loads(base64.urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}"))
        if isinstance(asked, int) and isinstance(last, str) and 0 < place <= MAX_OFFSET:
            return asked, int(place), last
    except (ValueError, TypeError, RecursionError):
        pass
    raise ApiError(422, "bad_cursor", "'after' is not the 'next' of an answer")


def _checksum(parts: WeightedParts, options: SearchOptions) -> int:
    asked = {one.name: getattr(options, one.name) for one in fields(SearchOptions)}
    described = [repr([pair for pair in asked.items() if pair[0] not in PAGE_FIELDS]).encode()]
    described += [b"%r %b" % (weight, _describe(part)) for part, weight in parts]
    return zlib.crc32(b"\0".join(described))


def _describe(part: QueryPart) -> bytes:
    match part:
        case ImageQueryPart(data=data):
            return b"%d %b" % (len(data), data[:HEAD])
        case MeshQueryPart(mesh=mesh):
            return b"%d %b" % (mesh.size, mesh.data[:HEAD])
        case _:
            return repr(part).encode(errors="surrogatepass")
