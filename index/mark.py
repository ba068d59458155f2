"""What a cluster holds of a collection, noted in the store: how far it was fed, and under which names.

A version counts as fed when every row that it has is in the cluster. Rows that ended are removed later, once
nobody looks at a version that had them; `swept` is the last change whose ended rows are gone.
"""

import json
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
    written: int = 0  # the cluster's time of the last write; 0: nobody knows
    segments: tuple[Segment, ...] = ()

    def name(self, segment: Segment) -> str:
        """What one side and kind of rows is called in the cluster."""
        return "_".join([self.place, *segment])

    def further(self, fed: int, written: int, segments: tuple[Segment, ...]) -> "Mark":
        """The mark after more was fed."""
        return replace(self, fed=fed, written=max(self.written, written), segments=segments)

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
