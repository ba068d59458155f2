"""Finds the nearest cells, and the nearest codes in them; on one thread in about half of the time of FAISS.

FAISS learns cells and codes, and keeps them. What is nearest is held in a heap of whole numbers: the bits
of a squared distance, which rise with it, and below them the place.
"""

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from index.engines.faiss_library import Index, ReducedVectors, faiss
from multifold.compiling import array_at, compile_function, memory_at, types

LANES = {"reassoc", "contract"}  # sums are made in several
BITS = {faiss.ScalarQuantizer.QT_8bit: 8, faiss.ScalarQuantizer.QT_4bit: 4}  # of a number
NOTHING = np.iinfo(np.int64).max  # in a heap that is not full
EVERY_ROW = np.empty(0, np.uint8)  # for a selection
BELOW = 0xFFFF_FFFF
_FLOATS = types.Array(types.float32, 2, "C", readonly=True)
_EACH = types.Array(types.float32, 1, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 2, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


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


@compile_function(types.void(_BYTES, types.uint8[::1]))
def _unpack(code: UInt8[np.ndarray, " b"], numbers: UInt8[np.ndarray, " w"]) -> None:
    """Write the two numbers of 4 bits that are in each byte, the lower one first."""
    for i in range(len(code)):
        numbers[2 * i] = code[i] & 15
        numbers[2 * i + 1] = code[i] >> 4


@compile_function(types.float32(_EACH, _EACH, _BYTES), fastmath=LANES)
def _square(
    steps: Float32[np.ndarray, " w"], lowest: Float32[np.ndarray, " w"], numbers: UInt8[np.ndarray, " w"]
) -> np.float32:
    """The squared length of what is so many steps above the lowest in each dimension."""
    square = np.float32(0)
    for i in range(len(numbers)):
        one = lowest[i] + steps[i] * np.float32(numbers[i])
        square += one * one
    return square


@compile_function(types.float32[::1](_EACH, _EACH, types.int64, _PLACES, _PLACES))
def _code_squares(
    steps: Float32[np.ndarray, " w"],
    lowest: Float32[np.ndarray, " w"],
    bits: int,
    sizes: Int64[np.ndarray, " n"],
    codes_at: Int64[np.ndarray, " n"],
) -> Float32[np.ndarray, " g"]:
    """The same for all codes, cell by cell."""
    squares = np.empty(sizes.sum(), np.float32)
    numbers = np.empty(len(steps), np.uint8)
    place = 0
    for cell in range(len(sizes)):
        codes = array_at(memory_at(codes_at[cell]), (sizes[cell], len(steps) * bits // 8), np.uint8)
        for row in range(len(codes)):
            if bits == 8:
                numbers[:] = codes[row]
            else:
                _unpack(codes[row], numbers)
            squares[place] = _square(steps, lowest, numbers)
            place += 1
    return squares


@compile_function(types.float32(_EACH, _EACH, _EACH, _EACH, types.float32[::1]), fastmath=LANES)
def _weigh(
    query: Float32[np.ndarray, " w"],
    centre: Float32[np.ndarray, " w"],
    steps: Float32[np.ndarray, " w"],
    lowest: Float32[np.ndarray, " w"],
    weights: Float32[np.ndarray, " w"],
) -> np.float32:
    """Write by how much a step brings a row nearer in each dimension; the squared distance without steps."""
    square = np.float32(0)
    for i in range(len(weights)):
        away = query[i] - centre[i]
        square += away * (away - lowest[i] - lowest[i])
        weights[i] = (away + away) * steps[i]
    return square


@compile_function(types.float32(_EACH, _BYTES), fastmath=LANES)
def _product(weights: Float32[np.ndarray, " w"], numbers: UInt8[np.ndarray, " w"]) -> np.float32:
    product = np.float32(0)
    for i in range(len(numbers)):
        product += weights[i] * np.float32(numbers[i])
    return product


@compile_function(
    types.void(
        _FLOATS,
        _INTEGERS,
        _BYTES,
        types.int64[:, ::1],
        _FLOATS,
        _EACH,
        _EACH,
        types.int64,
        _PLACES,
        _PLACES,
        _PLACES,
        _PLACES,
        _EACH,
    )
)
def _scan(
    queries: Float32[np.ndarray, "q w"],
    cells: Int64[np.ndarray, "q e"],
    selected: UInt8[np.ndarray, " _"],
    places: Int64[np.ndarray, "q c"],
    centres: Float32[np.ndarray, "n w"],
    steps: Float32[np.ndarray, " w"],
    lowest: Float32[np.ndarray, " w"],
    bits: int,
    sizes: Int64[np.ndarray, " n"],
    starts: Int64[np.ndarray, " n"],
    codes_at: Int64[np.ndarray, " n"],
    ids_at: Int64[np.ndarray, " n"],
    squares: Float32[np.ndarray, " g"],
) -> None:
    """Write the places of the nearest codes.

    The squared distance of a code is that of the centre of its cell, less twice a product, and the square of
    what the code stands for.
    """
    weights = np.empty(len(steps), np.float32)
    numbers = np.empty(len(steps), np.uint8)
    for at in range(len(queries)):
        best = places[at]
        best[:] = NOTHING
        for cell in cells[at]:
            if cell < 0:
                continue
            size = sizes[cell]
            ids = array_at(memory_at(ids_at[cell]), size, np.int64)
            codes = array_at(memory_at(codes_at[cell]), (size, len(steps) * bits // 8), np.uint8)
            away = _weigh(queries[at], centres[cell], steps, lowest, weights)
            distances = away + squares[starts[cell] : starts[cell] + size]
            for row in range(size):
                if len(selected) and not (selected[ids[row] >> 3] >> (ids[row] & 7)) & 1:
                    distances[row] = np.inf
                elif bits == 8:
                    distances[row] -= _product(weights, codes[row])
                else:
                    _unpack(codes[row], numbers)
                    distances[row] -= _product(weights, numbers)
            rising = distances.view(np.int32)
            for row in range(size):
                key = (np.int64(max(rising[row], 0)) << 32) | ids[row]
                if key < best[0] and distances[row] < np.inf:
                    _replace_largest(best, key)
        best.sort()
        for place in range(len(best)):
            best[place] = -1 if best[place] == NOTHING else best[place] & BELOW


def can_scan(index: Index) -> bool:
    """Whether an index of cells has codes that can be scanned here."""
    return isinstance(index, faiss.IndexIVFScalarQuantizer) and index.by_residual and index.sq.qtype in BITS


class CellScan:
    """The codes of an index of cells with 4 or 8 bits for a number, where FAISS keeps them."""

    def __init__(self, index: Index, centres: Float32[np.ndarray, "n w"]) -> None:
        self._index = index  # whose memory it reads
        self._centres = centres
        self._bits = BITS[index.sq.qtype]
        lowest, spans = faiss.vector_to_array(index.sq.trained).reshape(2, -1)
        self._steps = spans / np.float32(2**self._bits - 1)
        self._lowest = lowest + self._steps / 2  # where the lowest step has its middle
        lists, cells = index.invlists, range(int(index.nlist))
        self._sizes = np.array([lists.list_size(cell) for cell in cells], np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._codes = np.array([int(lists.get_codes(cell) or 0) for cell in cells], np.int64)
        self._ids = np.array([int(lists.get_ids(cell) or 0) for cell in cells], np.int64)
        self._squares = _code_squares(self._steps, self._lowest, self._bits, self._sizes, self._codes)

    def nearest_rows(
        self,
        queries: ReducedVectors,
        cells: Int64[np.ndarray, "q e"],
        count: int,
        selected: UInt8[np.ndarray, " _"] = EVERY_ROW,
    ) -> Int64[np.ndarray, "q c"]:
        """Positions of the best rows in these cells (-1: none), best first, padded with -1."""
        places = np.empty((len(queries), count), np.int64)
        _scan(
            queries,
            np.ascontiguousarray(cells),
            selected,
            places,
            self._centres,
            self._steps,
            self._lowest,
            self._bits,
            self._sizes,
            self._starts,
            self._codes,
            self._ids,
            self._squares,
        )
        return places
