"""The legs: what each declares of itself, and the tables that follow from it.

A new leg is a file beside this one and a line in `DECLARED`.
"""

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from index.legs.contracts import Asked, LegDeclaration, SearchLeg
from index.legs.reader import READER
from index.legs.vectors import IMAGE, POINTS, SHAPE, TEXT
from index.legs.words import WORDS
from index.legs.writing import WRITING
from multifold.types import ASPECTS, EXAMPLES, Leg, Target

DECLARED: tuple[LegDeclaration, ...] = (TEXT, IMAGE, SHAPE, POINTS, WORDS, READER, WRITING)

BY_NAME: Mapping[Leg, LegDeclaration] = {leg.name: leg for leg in DECLARED}
LEGS = tuple(BY_NAME)
COLUMNS = tuple(column for leg in DECLARED for column in leg.columns)  # what is weighted of all legs
COLUMNS_OF: Mapping[Leg, slice] = {
    leg.name: slice(COLUMNS.index(leg.columns[0]), COLUMNS.index(leg.columns[-1]) + 1) for leg in DECLARED
}
BARE = np.isin(COLUMNS, [leg.bare for leg in DECLARED if leg.bare])  # what counts for items without a text
LEG_OF_COLUMN = np.array([place for place, leg in enumerate(DECLARED) for _ in leg.columns])
TARGET_LEGS: Mapping[Target, tuple[Leg, ...]] = {
    target: tuple(leg.name for leg in DECLARED if target in leg.targets) for target in get_args(Target)
}
TEXT_LEGS = tuple(leg.name for leg in DECLARED if leg.needs_text)


def check_declarations(declared: Sequence[LegDeclaration]) -> None:
    names = [leg.name for leg in declared]
    columns = [column for leg in declared for column in leg.columns]
    labels = {leg.label for leg in declared}
    assert len({*names, EXAMPLES}) == len(names) + 1, "a name belongs to one leg"
    assert names[: len(ASPECTS)] == [*ASPECTS], "aspects come first, in their order"
    assert len({*columns}) == len(columns), "a column belongs to one leg"
    assert len({label.name for label in labels}) == len(labels), "a column of labels has one weight"
    for leg in declared:
        stated = {*leg.wordless, *(column for weights in leg.prior.values() for column in weights)}
        assert leg.columns, f"{leg.name} has something to weigh"
        assert stated <= {*leg.columns}, f"{leg.name} weighs what is its own"
        assert leg.bare in (None, *leg.columns), f"{leg.name} has the column that counts alone"
        assert leg.targets <= {*get_args(Target)}, f"{leg.name} belongs to targets that there are"
        assert leg.silent_without in (None, *names), f"{leg.name} is silent without a leg that there is"


check_declarations(DECLARED)
assert all(TARGET_LEGS.values()), "each target asks a leg"


def make_legs(asked: Asked, names: Sequence[Leg]) -> list[SearchLeg]:
    """These legs, of those that there are, asked one query."""
    every = (BY_NAME[name].make(asked) for name in names)
    return [leg for leg in every if leg is not None]
