"""How a Python function becomes a kernel.

Only entry functions are kept on disk, with all that they call inside. numba looks for changes in an entry's
own file alone, so entries close over a fingerprint of all our files, which makes it part of their key.
"""

import inspect
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from multifold.errors import needs_extra

with needs_extra("render"):
    import numba
    from numba.core import types
    from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")
Single: TypeAlias = Any  # a float32; for mypy, sums of them are something else


def kernel(function: Callable[P, R], *, inline: bool = False) -> Callable[P, R]:
    """A function that kernels call."""
    plain = inspect.unwrap(function)
    compiled: Callable[P, R] = numba.njit(plain, nogil=True, error_model="numpy", forceinline=inline)
    return compiled


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that becomes part of its caller, whatever its size: loops over calls are not vectorised."""
    return kernel(function, inline=True)


def fingerprint() -> int:
    """A number that changes when any kernel does, or a file that kernels take constants from."""
    here = Path(__file__).parent
    sources = [*sorted(here.glob("*.py")), here.parent / "look.py", here.parent / "images" / "color.py"]
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


def _converter(kind: Any, operation: str) -> Any:  # noqa: ANN401 (the compiler's own types)
    """A kernel that takes the bits of its argument for another type."""

    @intrinsic
    def convert(_: Any, value: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
            return getattr(builder, operation)(values[0], context.get_value_type(signature.return_type))

        return kind(value), generate

    return convert


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


@inline_kernel
def choose(condition: Single, first: Single, second: Single) -> Single:
    return first if condition else second


_pointer_type: Any = types.CPointer
float_pointer = _converter(_pointer_type(types.float32), "inttoptr")
long_pointer = _converter(_pointer_type(types.int64), "inttoptr")
byte_pointer = _converter(_pointer_type(types.uint8), "inttoptr")
bits_of = _converter(types.int32, "bitcast")
single_of = _converter(types.float32, "bitcast")
