"""One module a kind, found by its file: each has `build(bench)`, which makes one piece on the workbench."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from training.data.furniture.modeling.piece import Workbench


@cache
def names() -> tuple[str, ...]:
    """All kinds, in the order of the alphabet."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def builder(kind: str) -> Callable[[Workbench], None]:
    """What builds pieces of a kind."""
    build: Callable[[Workbench], None] = importlib.import_module(f"{__name__}.{kind}").build
    return build
