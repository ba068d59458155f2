"""How a Python function becomes a kernel.

Only entry functions are kept on disk, with all that they call inside. numba looks for changes in an entry's
own file alone, so entries close over a fingerprint of all our files, which makes it part of their key.
"""

import inspect
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeAlias, TypeVar

from multifold.errors import needs_extra

with needs_extra("fast"):
    import numba
    from numba.core import types
    from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")
Single: TypeAlias = Any  # a float32; for mypy, sums of them are something else


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A function that kernels call."""
    compiled: Callable[P, R] = numba.njit(inspect.unwrap(function), nogil=True, error_model="numpy")
    return compiled


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that becomes part of its caller, whatever its size: loops over calls are not vectorised."""
    plain = inspect.unwrap(function)
    compiled: Callable[P, R] = numba.njit(plain, nogil=True, error_model="numpy", forceinline=True)
    return compiled


def inline_twins(functions: Iterable[Callable[..., Any]], scalar_forms: Mapping[str, Any]) -> dict[str, Any]:
    """Plain functions as inline kernels, by name; each calls the scalar forms and the kernels before it."""
    kernels = dict(scalar_forms)
    for function in functions:
        plain = inspect.unwrap(function)
        twin = FunctionType(plain.__code__, {**plain.__globals__, **kernels}, plain.__name__)
        kernels[plain.__name__] = inline_kernel(twin)
    return kernels


def fingerprint() -> int:
    """A number that changes when any kernel does, or a file that kernels take constants from."""
    here = Path(__file__).parent
    plain = [*sorted(here.parent.glob("*.py")), here.parents[1] / "images" / "color.py"]
    sources = [*sorted(here.glob("*.py")), *plain]
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


def _pointer_to(kind: Any) -> Any:  # noqa: ANN401 (the compiler's own types)
    @intrinsic
    def pointer(_: Any, address: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        pointer_type: Any = types.CPointer
        return pointer_type(kind)(address), generate

    return pointer


def pointers_of(arrays: Mapping[str, Any]) -> Any:  # noqa: ANN401 (the compiler's own types)
    """A kernel that makes the addresses of these arrays, given by their jaxtyping annotations, pointers."""
    untyped: Any = types
    kinds = untyped.Tuple([untyped.CPointer(getattr(types, array.dtypes[0])) for array in arrays.values()])

    @intrinsic
    def pointers(_: Any, addresses: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:  # noqa: ANN401
            numbers = (builder.extract_value(values[0], place) for place in range(len(kinds)))
            pairs = zip(numbers, map(context.get_value_type, kinds), strict=True)
            return context.make_tuple(builder, kinds, [builder.inttoptr(*pair) for pair in pairs])

        return kinds(addresses), generate

    return pointers


def _bits_as(kind: Any) -> Any:  # noqa: ANN401 (the compiler's own types)
    @intrinsic
    def bits(_: Any, value: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
            return builder.bitcast(values[0], context.get_value_type(signature.return_type))

        return kind(value), generate

    return bits


float_pointer, long_pointer, byte_pointer = map(_pointer_to, (types.float32, types.int64, types.uint8))
bits_of, single_of = _bits_as(types.int32), _bits_as(types.float32)
