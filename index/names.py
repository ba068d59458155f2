"""Names of collections. Commands read this before they import anything that takes long."""

import re

from multifold.errors import MultifoldError

MAIN = "main"  # the collection of the data folder itself, which is always there
DEFAULT = "default"  # the alias used where no collection is named; main's, until it is set
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class CollectionNameError(MultifoldError):
    """A name that no collection can have."""


def check_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise CollectionNameError(
            f"{name[:80]!r} is no name of a collection: up to 40 lower-case letters, digits, - and _, "
            "of which the first is a letter or digit"
        )
