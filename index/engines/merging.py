"""Which segments of an engine are merged when, and what a merged one begins with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from index.contracts import NO_ROW, Ids
from index.engines.exact_engine import RowView
from index.engines.faiss_index import IndexStart
from index.engines.segments import Segment

TIER = 4  # a sealed part joins a merge that has a quarter of its rows,
KEPT_TIER = 16  # or so much of its rows, if it keeps its cells: its codes are copied then;
QUIET_TIER = 64  # and so few rows join it when no more come
DEAD_SHARE = 4  # a part of whose rows a quarter is dead is merged
Ladder: TypeAlias = Callable[[int], Sequence[str]]  # types to try for so many rows


def segments_to_merge(
    parts: Sequence[Segment], seal_at: int, types: Ladder, *, quiet: bool = False
) -> list[Segment]:
    """The parts to merge now: loose rows if they are enough, and beside them small or rotten sealed parts.

    A part that was filled and has no index yet comes first, by itself: so its file need not be copied.
    When no more rows come (`quiet`), all others join the largest part, if that keeps its cells.
    """
    if waiting := [part for part in parts if part.report and part.report.waits]:
        return waiting[:1]
    loose = [part for part in parts if part.report is None]
    rotten = [part for part in parts if part.report and part.rows.dead * DEAD_SHARE > len(part.rows.ids)]
    largest = max(parts, key=lambda part: len(part.rows), default=None)
    others = [part for part in parts if part is not largest]
    if sum(len(part.rows) for part in loose) < seal_at and not rotten:
        return list(parts) if quiet and _joins(largest, others, types, QUIET_TIER) else []
    chosen = with_similar(loose + rotten, parts, TIER)
    return [*chosen, largest] if largest and _joins(largest, chosen, types, KEPT_TIER) else chosen


def _joins(part: Segment | None, chosen: Sequence[Segment], types: Ladder, tier: int) -> bool:
    """Whether a part keeps its cells in a merge with these, and is not too large for that."""
    size = sum(len(one.rows) for one in chosen)
    if part is None or part in chosen or len(part.rows) > tier * size:
        return False
    return _keeps_cells(part, size + len(part.rows), types)


def _keeps_cells(part: Segment, rows: int, types: Ladder) -> bool:
    """Whether so many rows, with those of this part, are to have as many cells, learned from half of them."""
    ann = part.ann
    if ann is None or ann.cells is None or ann.type == FIRST_CELLS or ann.type not in types(rows):
        return False
    return 2 * (ann.added + rows - len(part.rows)) <= rows


FIRST_CELLS = "IVF120,SQ8"  # the type of a first index of many rows, whose cells serve no other part
FIRST_INDEX_TIER = 8  # a first index is cheap to make again


def segments_to_hasten(parts: Sequence[Segment]) -> list[Segment]:
    """The parts to give a first index together: loose rows that have none, and small loose parts."""
    loose = [part for part in parts if part.report is None]
    return with_similar([part for part in loose if part.ann is None], loose, FIRST_INDEX_TIER)


def with_similar(chosen: list[Segment], parts: Sequence[Segment], tier: int) -> list[Segment]:
    """And those of the parts that are not many times as large as what is chosen, the smallest first."""
    size = sum(len(part.rows) for part in chosen)
    for part in sorted(parts, key=lambda part: len(part.rows)):
        if part not in chosen and len(part.rows) <= tier * size:
            chosen.append(part)
            size += len(part.rows)
    return chosen


def index_start(
    parts: Sequence[Segment],
    chosen: Sequence[Segment],
    rows: RowView,
    *,
    hasty: bool = False,
    types: Ladder = lambda _: (),
) -> IndexStart | None:
    """The cells of the largest part, with those of these rows that a chosen part has there.

    They serve rows that are no more than those of the part, or any rows for now. A part that is merged itself
    gives its cells if the merged rows are to have as many (`types`), learned from half of them.
    """
    known = [part for part in parts if part.ann and part.ann.cells and part.ann.type != FIRST_CELLS]
    others = [part for part in known if part not in chosen]
    largest = max(others, key=lambda part: len(part.rows), default=None)
    if largest is None or (len(largest.rows) < len(rows) and not hasty):
        largest = next((part for part in chosen if _keeps_cells(part, len(rows), types)), None)
    if largest is None or largest.ann is None:
        return None
    for part in sorted(chosen, key=lambda part: -len(part.rows)):
        if part.ann is not None and part.ann.cells is largest.ann.cells:
            places = np.searchsorted(rows.ids, part.rows.ids)
            if part.rows.alive is not None:
                places[~part.rows.alive] = NO_ROW
            return IndexStart(part.ann, places)
    return IndexStart(largest.ann)


def replace_segments(now: Sequence[Segment], chosen: Sequence[Segment], new: Segment) -> list[Segment]:
    """The parts after a merge; what was removed from the old parts meanwhile is dead in the new one."""
    sources = {id(part.rows.ids) for part in chosen}  # a part keeps its ids when rows of it die
    old = [part for part in now if id(part.rows.ids) in sources]
    rows = new.rows
    if sum(len(part.rows) for part in old) < len(rows):
        living: Ids = np.concatenate([np.empty(0, np.int64), *(part.rows.living_ids for part in old)])
        rows = replace(rows, alive=np.isin(rows.ids, living))
    others = [part for part in now if id(part.rows.ids) not in sources]
    return [*others, replace(new, rows=rows)] if len(rows) else others
