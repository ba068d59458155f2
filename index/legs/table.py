"""The legs by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable, Mapping, Sequence

from index.legs.contracts import Asked, SearchLeg
from index.legs.reader import ReaderLeg
from index.legs.vectors import VectorLeg
from index.legs.words import WordLeg
from multifold.types import Leg


def _reader(asked: Asked) -> SearchLeg | None:
    return None if asked.reader is None else ReaderLeg(asked, asked.reader)


MAKERS: Mapping[Leg, Callable[[Asked], SearchLeg | None]] = {
    "text": lambda asked: VectorLeg("text", asked),
    "image": lambda asked: VectorLeg("image", asked),
    "shape": lambda asked: VectorLeg("shape", asked),
    "points": lambda asked: VectorLeg("points", asked),
    "words": WordLeg,
    "reader": _reader,
}


def make_legs(asked: Asked, names: Sequence[Leg]) -> list[SearchLeg]:
    """These legs, of those that there are, asked one query."""
    every = (MAKERS[name](asked) for name in names)
    return [leg for leg in every if leg is not None]
