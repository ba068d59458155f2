"""What a cluster holds of a collection, noted in the store: how far it was fed, and under which names.

Rows are fed as of a version of the store: what ended before that was never fed. So only versions that
somebody fed up to are whole, and nothing may be looked at in between. Rows that ended are removed later, once
nobody looks at a version that had them; `swept` is the last change whose ended rows are gone.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from index.base import Segment

KEY = "cluster"  # of the note


@dataclass(frozen=True)
class Mark:
    """How far the cluster has got."""

    place: str  # what all its names begin with
    fed: int
    swept: int
    whole: bool = False  # whether all rows of the version `fed` are there
    written: int = 0  # the cluster's time of the last write; 0: nobody knows
    segments: tuple[Segment, ...] = ()

    def name(self, segment: Segment) -> str:
        """What one side and kind of rows is called in the cluster."""
        return "_".join([self.place, *segment])

    def further(self, fed: int, written: int, segments: Iterable[Segment], *, whole: bool) -> "Mark":
        """The mark after more was fed."""
        return replace(
            self,
            fed=fed,
            whole=whole,
            written=max(self.written, written),
            segments=tuple(sorted({*self.segments, *segments})),
        )

    def after(self, noted: "Mark | None") -> "Mark":
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


def new_mark() -> Mark:
    """Nothing is fed, to a place that nobody else has."""
    return Mark(f"multifold_{uuid4().hex}", 0, 0)


def from_note(note: str) -> Mark:
    """The mark that `as_note` wrote."""
    told = json.loads(note)
    segments = tuple((side, kind) for side, kind in told.pop("segments"))
    return Mark(**told, segments=segments)
