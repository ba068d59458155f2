"""What is true of a piece, as data: each fact knows its words and the sides it can be seen from.

Left and right are those of a person who stands in front of the piece and looks at it (left is -X).
The sides of a fact are measured on the finished piece (visibility.py), where it speaks of parts.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Side: TypeAlias = Literal["front", "back", "left", "right", "above"]
Attribute: TypeAlias = Literal[
    "absent", "count", "size", "shape", "colour", "pattern", "material", "kind", "place"
]

ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)  # in the order in which English says them
EVERYWHERE: frozenset[Side] = frozenset(get_args(Side))


@dataclass(frozen=True)
class FactSubject:
    """A piece as a whole (id "whole"), or something on it that consists of the parts named."""

    id: str
    nouns: tuple[str, ...]
    parts: tuple[str, ...]
    plural: bool = False


@dataclass(frozen=True)
class FurnitureFact:
    """One truth. `words` stand before the noun, `tails` after it."""

    thing: FactSubject
    attribute: Attribute
    value: str
    words: tuple[str, ...]
    tails: tuple[str, ...]
    sides: frozenset[Side] = EVERYWHERE

    @property
    def id(self) -> str:
        """A name for the truth itself, such as legs.count=4."""
        return f"{self.thing.id}.{self.attribute}={self.value}"


def subject(name: str, *nouns: str, plural: bool = False, parts: tuple[str, ...] = ()) -> FactSubject:
    """Something on a piece; it consists of the parts that carry its name, unless said otherwise."""
    return FactSubject(name, nouns or (name,), parts or (name,), plural)


def counted_subject(name: str, count: int, one: str, many: str | None = None) -> FactSubject:
    return subject(name, one if count == 1 else many or name, plural=count > 1)
