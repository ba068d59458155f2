"""How far queries are from the cells of an index, which cells are nearest, and which may hold a nearer row.

The nearest are held in a heap of whole numbers: the bits of a squared distance, which rise with it, and below
them the cell.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Int64

from index.engines.faiss_library import ReducedVectors
from multifold.compiling import compile_function, types

LANES = {"reassoc", "contract"}  # sums are made in several
NOTHING = np.iinfo(np.int64).max  # in a heap that is not full
BELOW = 0xFFFF_FFFF
_FLOATS = types.Array(types.float32, 2, "C", readonly=True)
_EACH = types.Array(types.float32, 1, "C", readonly=True)
_STRIDED = types.Array(types.float32, 1, "A", readonly=True)


@compile_function(types.float32[::1](_EACH, _FLOATS), fastmath=LANES)
def squared_distances(
    query: Float32[np.ndarray, " w"], centres: Float32[np.ndarray, "n w"]
) -> Float32[np.ndarray, " n"]:
    """From a query to each centre."""
    squares = np.empty(len(centres), np.float32)
    for cell in range(len(centres)):
        square = np.float32(0)
        for i in range(len(query)):
            away = query[i] - centres[cell, i]
            square += away * away
        squares[cell] = square
    return squares


@compile_function(types.void(types.int64[::1], types.int64))
def _replace_largest(heap: Int64[np.ndarray, " c"], key: np.int64) -> None:
    """Put a smaller number into a heap whose first is the largest."""
    place, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = key


@compile_function(types.int64[:, ::1](_FLOATS, types.int64))
def nearest_cells(squares: Float32[np.ndarray, "q n"], effort: int) -> Int64[np.ndarray, "q e"]:
    """So many cells whose squared distances are least, the farthest of them last."""
    cells = np.empty((len(squares), effort), np.int64)
    for row in range(len(squares)):
        heap = np.full(effort, NOTHING, np.int64)
        bits = squares[row].view(np.int32)
        for cell in range(len(bits)):
            key = (np.int64(max(bits[cell], 0)) << 32) | cell
            if key < heap[0]:
                _replace_largest(heap, key)
        for place in range(effort):
            cells[row, effort - 1 - place] = heap[place] & BELOW
    return cells


@dataclass(frozen=True, eq=False)
class CellDistances:
    """How far each query is from the centre of each cell, as squares."""

    queries: ReducedVectors
    factors: Float32[np.ndarray, " q"] | None
    squares: Float32[np.ndarray, "q n"]
    _nearest: dict[int, Int64[np.ndarray, "q e"]] = field(default_factory=dict)

    def nearest(self, effort: int) -> Int64[np.ndarray, "q e"]:
        """So many of the nearest cells, the farthest of them last."""
        effort = min(effort, self.squares.shape[1])
        if effort not in self._nearest:
            self._nearest[effort] = nearest_cells(self.squares, effort)
        return self._nearest[effort]

    def edge(self, effort: int) -> Float32[np.ndarray, " q"]:
        """How far that one is."""
        last = self.nearest(effort)[:, -1]
        return np.asarray(self.squares[np.arange(len(last)), last])


@compile_function(types.float32[::1](_STRIDED, types.float64, types.float64))
def cell_bounds(last: Float32[np.ndarray, " q"], reach: float, radius: float) -> Float32[np.ndarray, " q"]:
    """How far a cell may be to have a row nearer than the last one found; as squares, like all distances.

    Its rows are a radius away from its centre, and lie towards the query by `reach` times that.
    """
    towards = np.sqrt(radius) * reach
    bounds = np.zeros(len(last), np.float32)
    for row in range(len(last)):
        inner = last[row] + (towards * towards - radius)
        if inner >= 0:
            bounds[row] = (towards + np.sqrt(inner)) ** 2
    return bounds


@compile_function(
    types.int64[:, ::1](
        _FLOATS,
        types.Array(types.int64, 1, "A", readonly=True),
        _STRIDED,
        types.float64,
        types.float64,
        types.float64,
        types.float64,
        types.boolean,
    )
)
def cells_within_reach(
    squares: Float32[np.ndarray, "q n"],
    farthest: Int64[np.ndarray, " q"],
    last: Float32[np.ndarray, " q"],
    radius: float,
    near: float,
    reach: float,
    far_reach: float,
    again: bool,
) -> Int64[np.ndarray, "q e"]:
    """For each query the cells beyond the farthest that was searched and within reach, padded with -1.

    Queries whose last row is not near have a reach of their own, and begin `again` with the first cell.
    """
    bounds = cell_bounds(last, reach, radius)
    far_bounds = cell_bounds(last, far_reach, radius)
    edges = np.empty(len(last), np.float32)
    most = 0
    for row in range(len(squares)):
        edges[row] = squares[row, farthest[row]]
        if last[row] > near:
            bounds[row] = far_bounds[row]
            if again:
                edges[row] = -1
        count = 0
        for cell in range(squares.shape[1]):
            count += edges[row] < squares[row, cell] <= bounds[row]
        most = max(most, count)
    cells = np.full((len(squares), most), -1, np.int64)
    for row in range(len(squares) if most else 0):
        place = 0
        for cell in range(squares.shape[1]):
            if edges[row] < squares[row, cell] <= bounds[row]:
                cells[row, place] = cell
                place += 1
    return cells
