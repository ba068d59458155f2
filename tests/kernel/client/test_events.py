"""Server-sent events are read from pieces of any length."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from multifold.client.events import EventReader
from multifold.wire.administration import NameRemoval

SENT = b'event: job\ndata: {"removed": "one"}\n\n: ping\n\ndata:{"removed": "two \xe2\x82\xac"}\n\n'


@given(cuts=st.lists(st.integers(0, len(SENT))))
def test_events_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    reader = EventReader(NameRemoval)
    ends = [0, *sorted(cuts), len(SENT)]
    pieces = [SENT[start:end] for start, end in pairwise(ends)]
    assert [one for piece in pieces for one in reader.read(piece)] == [
        NameRemoval("one"),
        NameRemoval("two €"),
    ]
