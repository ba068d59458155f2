"""Which parts are merged when, and how a merged part takes the place of those it was made of. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from index.base import Ids
from index.engines.ann import Start
from index.engines.parts import Part
from index.engines.rowview import RowView, view_of

TIER = 4  # a sealed part joins a merge that has a quarter of its rows
HASTY_TIER = 8  # a first index is cheap to make again
ROTTEN = 4  # and so does one of whose rows a quarter is dead


def due(parts: Sequence[Part], seal_at: int) -> list[Part]:
    """The parts to merge now: loose rows if they are enough, and beside them small or rotten sealed parts."""
    loose = [part for part in parts if part.report is None]
    size = sum(len(part.rows) for part in loose)
    rotten = [part for part in parts if part.report and part.rows.dead * ROTTEN > len(part.rows.ids)]
    if size < seal_at and not rotten:
        return []
    return _joined(loose + rotten, parts, TIER)


def hasty(parts: Sequence[Part]) -> list[Part]:
    """The parts to give a first index together: loose rows that have none, and loose parts that are small."""
    loose = [part for part in parts if part.report is None]
    return _joined([part for part in loose if part.ann is None], loose, HASTY_TIER)


def _joined(chosen: list[Part], parts: Sequence[Part], tier: int) -> list[Part]:
    """And those of the parts that are not many times as large as what is chosen, the smallest first."""
    size = sum(len(part.rows) for part in chosen)
    for part in sorted(parts, key=lambda part: len(part.rows)):
        if part not in chosen and len(part.rows) <= tier * size:
            chosen.append(part)
            size += len(part.rows)
    return chosen


def merged(parts: Sequence[Part]) -> RowView:
    """The living rows of these parts together."""
    ids, vectors = zip(*(part.rows.living() for part in parts), strict=True)
    return view_of(np.concatenate(ids), np.concatenate(vectors))


def start(parts: Sequence[Part], chosen: Sequence[Part], rows: RowView) -> Start | None:
    """The cells of the largest part, with the first of these rows where a chosen part has them there."""
    others = [part for part in parts if part.ann and part.ann.cells and part not in chosen]
    largest = max(others, key=lambda part: len(part.rows), default=None)
    if largest is None or largest.ann is None or len(largest.rows) < len(rows):
        return None
    for part in sorted(chosen, key=lambda part: -len(part.rows)):
        size = len(part.rows.ids)
        there = part.ann and part.ann.cells is largest.ann.cells
        if part.ann and there and np.array_equal(rows.ids[:size], part.rows.ids):
            return Start(part.ann, size)
    return Start(largest.ann, 0)


def replaced(now: Sequence[Part], chosen: Sequence[Part], new: Part) -> list[Part]:
    """The parts after a merge; what was removed from the old parts meanwhile is dead in the new one."""
    sources = {id(part.rows.ids) for part in chosen}  # a part keeps its ids when rows of it die
    old = [part for part in now if id(part.rows.ids) in sources]
    living: Ids = np.concatenate([np.empty(0, np.int64), *(part.rows.living_ids() for part in old)])
    alive = np.isin(new.rows.ids, living)
    rows = new.rows if alive.all() else replace(new.rows, alive=alive)
    kept = [part for part in now if id(part.rows.ids) not in sources]
    return [*kept, replace(new, rows=rows)] if len(rows) else kept
