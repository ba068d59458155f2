"""How far a cluster was fed from the store, and under which names, as noted in the store.

Rows are fed as of a version of the store: what ended before that was never fed. So only versions that
somebody fed up to are whole, and nothing may be looked at in between. Rows that ended are removed later, once
nobody looks at a version that had them; `swept` is the last change whose ended rows are gone.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from index.contracts import EngineKey

MARK_KEY = "cluster"  # of the note


@dataclass(frozen=True)
class FeedMark:
    """How far the cluster has got."""

    place: str  # what all its names begin with
    fed: int
    swept: int
    whole: bool = False  # whether all rows of the version `fed` are there
    written: int = 0  # the cluster's time of the last write; 0: nobody knows
    segments: tuple[EngineKey, ...] = ()

    def name(self, segment: EngineKey) -> str:
        """What one side and kind of rows is called in the cluster."""
        return "_".join([self.place, *segment])

    def further(self, fed: int, written: int, segments: Iterable[EngineKey], *, whole: bool) -> "FeedMark":
        """The mark after more was fed."""
        return replace(
            self,
            fed=fed,
            whole=whole,
            written=max(self.written, written),
            segments=tuple(sorted({*self.segments, *segments})),
        )

    def after(self, noted: "FeedMark | None") -> "FeedMark":
        """What to note when this is noted already, perhaps by one who got further: nothing goes back."""
        if noted is None:
            return self
        if noted.place != self.place:
            return noted
        ahead = max(self, noted, key=lambda one: (one.fed, one.whole))
        return replace(
            ahead,
            swept=max(self.swept, noted.swept),
            written=max(self.written, noted.written),
            segments=tuple(sorted({*self.segments, *noted.segments})),
        )

    def as_note(self) -> str:
        """For the store."""
        return json.dumps(asdict(self))


def new_feed_mark() -> FeedMark:
    """Nothing is fed, to a place that nobody else has."""
    return FeedMark(f"multifold_{uuid4().hex}", 0, 0)


def mark_from_note(note: str) -> FeedMark:
    """The mark that `as_note` wrote."""
    told = json.loads(note)
    segments = tuple((side, kind) for side, kind in told.pop("segments"))
    return FeedMark(**told, segments=segments)
