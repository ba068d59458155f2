"""A plugin of pytest: the shapes of arrays are checked at every call of a function that names them.

jaxtyping checks every function of a package, also those that take no array, of which a search of a collection
calls many for each item. Their types are those that mypy checks.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import jaxtyping

check_all = jaxtyping.jaxtyped


def check_arrays(
    thing: Callable[..., Any] | None = None, *, typechecker: Callable[..., Any]
) -> Callable[..., Any]:
    """The decorator that jaxtyping puts on every function and class, for those with arrays alone."""
    if thing is None:
        return partial(check_arrays, typechecker=typechecker)
    if not any(map(names_array, inspect.get_annotations(thing).values())):
        return thing
    checked: Callable[..., Any] = check_all(thing, typechecker=typechecker)
    return checked


def names_array(annotation: object) -> bool:
    """Whether a type is an array of some shape, or is made of such."""
    if isinstance(annotation, list | tuple):  # the arguments of a callable
        return any(map(names_array, annotation))
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(names_array, get_args(annotation)))


jaxtyping.jaxtyped = check_arrays  # type: ignore[assignment]
