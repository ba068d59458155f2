"""Pages of a ranking: which hits are asked for, and cursors that go on after the last of them."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import ApiError
from app.queries.parts import ImageQueryPart, MeshQueryPart, QueryPart, WeightedParts
from app.search.cursors import NO_CURSOR, checksum_body, read_cursor, write_cursor
from index.store.browse import PAGE_BYTES
from multifold.types import Hit
from multifold.wire.search import MAX_OFFSET, SearchOptions

OVERLAP = 50  # ranks by which a hit may have moved
HEAD = 4_096  # bytes of a file that tell it from another


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
    room: int = PAGE_BYTES  # bytes of payloads with which the page ends

    @classmethod
    def of(
        cls, route: str, collection: str, parts: WeightedParts, options: SearchOptions, sharing: int = 1
    ) -> "SearchPage":
        """The page that a search asks for; so many searches share its size."""
        room = PAGE_BYTES // sharing
        asked = _checksum_parts(checksum_body(route, collection, options, SearchOptions), parts)
        wanted = ("payload",) if options.fields is None else tuple(options.fields)
        if options.after is None:
            return cls(asked, options.offset, options.limit, fields=wanted, room=room)
        place, last = read_cursor(options.after, asked, int, str)
        if not 0 < place <= MAX_OFFSET:
            raise ApiError(422, "bad_cursor", NO_CURSOR)
        return cls(asked, place, options.limit, last, wanted, room)

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
        page = wanted[: _count_fitting(wanted, self.fields, self.room)]
        end = first + begin + len(page)
        more = (len(page) == self.limit or len(page) < len(wanted)) and end <= MAX_OFFSET
        return page, write_cursor(self.asked, end, page[-1].id) if more else None


def _count_fitting(hits: Sequence[Hit], fields: Sequence[str], room: int) -> int:
    size = 0
    for count, hit in enumerate(hits, 1):
        size += len(json.dumps(choose_keys(hit.payload, fields)))
        if size >= room:
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


def _checksum_parts(options: int, parts: WeightedParts) -> int:
    described = [b"%r %b" % (weight, _describe(part)) for part, weight in parts]
    return zlib.crc32(b"\0".join(described), options)


def _describe(part: QueryPart) -> bytes:
    match part:
        case ImageQueryPart(data=data):
            return b"%d %b" % (len(data), data[:HEAD])
        case MeshQueryPart(mesh=mesh):
            return b"%d %b" % (mesh.size, mesh.data[:HEAD])
        case _:
            return repr(part).encode(errors="surrogatepass")
