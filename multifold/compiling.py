"""Functions compiled by numba (extras `cpu`, `gpu` and `render`), kept where that can be written."""

import inspect
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from multifold.errors import needs_extra

with needs_extra("render"):
    import numba
    from numba.core import event
    from numba.core import types as types

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger(__name__)


class CompilingNotice(event.Listener):
    """Says once in a process that it makes machine code, where none is kept from before."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, _: Any) -> None:  # noqa: ANN401 (numba's)
        if not self._said:
            self._said = True
            log.warning("compiling for this machine, which takes up to a minute; the machine code is kept")

    def on_end(self, _: Any) -> None:  # noqa: ANN401 (numba's)
        """Nothing more is said."""


event.register("numba:compile", CompilingNotice())  # type: ignore[no-untyped-call]


def compile_function(signature: Any, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:  # noqa: ANN401 (numba's)
    """A function that Python calls, compiled at once for this signature; others may run beside it."""

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        def machine_code(cache: bool) -> Callable[P, R]:
            compiler = numba.njit(signature, nogil=True, error_model="numpy", cache=cache, **options)
            code: Callable[P, R] = compiler(inspect.unwrap(function))
            return code

        try:
            return machine_code(cache=True)
        except RuntimeError:  # no folder can be written: each process compiles for itself
            return machine_code(cache=False)

    return compiled


def compile_annotated(*written: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The same for the types of its annotations. Arrays are only read, but for those that are `written`."""

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        kinds = inspect.get_annotations(inspect.unwrap(function))
        kinds.pop("return", None)
        signature = tuple(_compiler_type(kind, name in written) for name, kind in kinds.items())
        return compile_function(signature)(function)

    return compiled


def _compiler_type(kind: Any, written: bool) -> Any:  # noqa: ANN401 (numba's)
    """What numba calls a type, of which arrays are contiguous."""
    if not hasattr(kind, "dtypes"):
        return numba.from_dtype(np.dtype(kind))
    number = numba.from_dtype(np.dtype(kind.dtypes[0]))
    return types.Array(number, len(kind.dims), "C", readonly=not written)
