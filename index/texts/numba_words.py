"""The functions of word_kernels.py, compiled by numba."""

from typing import Any

from index.texts import word_kernels
from multifold.compiling import compile_function, types


def _array(kind: Any, dimensions: int = 1) -> Any:  # noqa: ANN401 (numba's)
    return types.Array(kind, dimensions, "C", readonly=True)


_ints, _longs, _bytes, _shorts = map(_array, (types.int32, types.int64, types.uint8, types.uint16))
_flags, _doubles = _array(types.boolean), _array(types.float64)

count_rows = compile_function(types.void(_ints, _longs, types.int32[::1], types.int64[::1]))(
    word_kernels.count_rows
)
fill_postings = compile_function(
    types.void(_ints, _longs, types.int32[::1], types.int64[::1], types.int32[::1], types.uint8[::1])
)(word_kernels.fill_postings)
fill_holders = compile_function(
    types.void(
        _longs,
        _ints,
        _bytes,
        _ints,
        _bytes,
        _shorts,
        _array(types.float32, 2),
        _array(types.float64, 2),
        types.int64[::1],
        types.int32[::1],
        types.uint8[::1],
    )
)(word_kernels.fill_holders)
add_impacts = compile_function(types.void(_longs, _longs, _doubles, _ints, _bytes, types.float32[::1]))(
    word_kernels.add_impacts
)
rank_items = compile_function(
    types.int64(
        _longs,
        _longs,
        _doubles,
        _ints,
        _bytes,
        _ints,
        _bytes,
        _shorts,
        _longs,
        _array(types.float32, 2),
        _array(types.float64, 2),
        _flags,
        types.int64[::1],
        types.float32[::1],
    )
)(word_kernels.rank_items)
score_items = compile_function(
    types.void(
        _ints,
        _doubles,
        _longs,
        _ints,
        _longs,
        _longs,
        _bytes,
        _shorts,
        _array(types.float32, 2),
        _array(types.float64, 2),
        types.float32[::1],
        types.int64[::1],
        types.uint64[::1],
    )
)(word_kernels.score_items)
find_phrase = compile_function(types.void(_ints, _ints, _ints, _longs, _ints, types.boolean[::1]))(
    word_kernels.find_phrase
)
intersect_items = compile_function(
    types.int64(_longs, _longs, _ints, _ints, _longs, _flags, types.int64[::1])
)(word_kernels.intersect_items)
