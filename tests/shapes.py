"""A plugin of pytest: the shapes of arrays are checked at calls of functions that name them.

jaxtyping checks every call of every function of a package. Most functions take no array, and their types are
those that mypy checks. A few are called a hundred thousand times in a test: in each test the first calls of a
function are checked, and then some of them.
"""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_args

import jaxtyping
import pytest

FIRST_CALLS = 20  # of a function in a test, which are all checked;
LATER_CALLS = 16  # one of so many others is

check_all = jaxtyping.jaxtyped
calls: dict[Callable[..., Any], int] = {}  # in this test


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    calls.clear()


def check_arrays(
    thing: Callable[..., Any] | None = None, *, typechecker: Callable[..., Any]
) -> Callable[..., Any]:
    """The decorator that jaxtyping puts on every function and class, for those with arrays alone."""
    if thing is None:
        return partial(check_arrays, typechecker=typechecker)
    if not any(map(names_array, inspect.get_annotations(thing).values())):
        return thing
    checked: Callable[..., Any] = check_all(thing, typechecker=typechecker)
    return checked if inspect.isclass(thing) else check_some(thing, checked)


def check_some(plain: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is checked at some calls."""

    @wraps(plain)
    def called(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        count = calls.get(plain, 0)
        calls[plain] = count + 1
        due = count < FIRST_CALLS or count % LATER_CALLS == 0
        return (checked if due else plain)(*args, **named)

    return called


def names_array(annotation: object) -> bool:
    """Whether a type is an array of some shape, or is made of such."""
    if isinstance(annotation, list | tuple):  # the arguments of a callable
        return any(map(names_array, annotation))
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(names_array, get_args(annotation)))


jaxtyping.jaxtyped = check_arrays  # type: ignore[assignment]
