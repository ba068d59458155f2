"""Segments that are due for a merge."""

import numpy as np

from index.engines.exact_engine import view_of
from index.engines.merging import segments_to_merge
from index.engines.segments import Segment


def test_nothing_is_due_without_rows() -> None:
    empty = Segment(view_of(np.empty(0, np.int64), np.empty((0, 4), np.float32)))
    assert segments_to_merge([empty], 1, lambda _: ()) == []
    assert segments_to_merge([empty], 1, lambda _: (), quiet=True) == []
