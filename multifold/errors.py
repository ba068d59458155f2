"""The errors that users see: each is a sentence that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class MultifoldError(Exception):
    """A mistake that its reader can mend. Commands print it without a traceback; the service answers 4xx."""


class MissingExtraError(MultifoldError):
    """A library that belongs to an extra is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Imports inside this block come from the extra, and its absence says so."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name} is not installed. It comes with the extra '{extra}': "
            f"pip install 'multifold[{extra}]', or pip install -e '.[{extra}]' in a checkout."
        ) from error
