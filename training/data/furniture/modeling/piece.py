"""A piece of furniture: parts, facts and captions; and the workbench where a kind puts one together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from training.data.furniture.modeling import palette
from training.data.furniture.modeling.facts import (
    EVERYWHERE,
    Attribute,
    FactSubject,
    FurnitureFact,
    Side,
    counted_subject,
)
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.primitives import PartMesh, merge
from training.data.furniture.modeling.visibility import visible_sides

T = TypeVar("T")
COUNTS = {1: ("one",), 2: ("two", "2"), 3: ("three", "3"), 4: ("four", "4"), 5: ("five", "5")}


@dataclass(frozen=True)
class FurniturePart:
    """One solid part: four legs are four parts named "legs"."""

    name: str
    finish: Finish
    mesh: PartMesh


@dataclass(frozen=True)
class FurnitureCaption:
    """A sentence, and the ids of the facts that it claims."""

    text: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class FurniturePiece:
    """One item of the set. `finish` is what its main parts are made of."""

    kind: str
    whole: FactSubject
    finish: Finish
    parts: tuple[FurniturePart, ...]
    facts: tuple[FurnitureFact, ...]
    captions: tuple[FurnitureCaption, ...] = ()

    @property
    def radius(self) -> float:
        """Half the diagonal of its bounding box: what it is scaled by when it is drawn."""
        points = np.concatenate([part.mesh.vertices for part in self.parts])
        return float(np.linalg.norm(points.max(0) - points.min(0)) / 2)


class Workbench:
    """Collects the parts and facts of one piece; all random choices come from its one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.whole: FactSubject | None = None
        self.main: Finish | None = None
        self.parts: list[FurniturePart] = []
        self.facts: list[FurnitureFact] = []

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def span(self, low: float, high: float) -> float:
        """A random length between two others, to the millimetre."""
        return round(float(self.rng.uniform(low, high)), 3)

    def finish(self, *materials: str, unlike: Sequence[Finish] = (), patterned: float = 0.35) -> Finish:
        """A finish in one of the materials, its colour well apart from others."""
        material = self.pick(materials)
        kind = palette.MATERIALS[material]
        taken = [one.colour for one in unlike]
        free = [name for name in kind.colours if not any(palette.are_alike(name, other) for other in taken)]
        pattern = self.pick(kind.patterns) if kind.patterns and self.chance(patterned) else None
        return Finish(self.pick(free or kind.colours), material, pattern, self.span(0.9, 1.06))

    def begin(self, finish: Finish, nouns: Sequence[str], *parts: str, uniform: bool = True) -> FactSubject:
        """Name the piece and its main parts; if `uniform`, their finish is that of the whole."""
        self.main = finish
        self.whole = FactSubject("whole", tuple(nouns), parts)
        return self.look(self.whole, finish) if uniform else self.whole

    def add(self, name: str, finish: Finish, *meshes: PartMesh) -> None:
        self.parts.extend(FurniturePart(name, finish, mesh) for mesh in meshes)

    def paint(self, thing: FactSubject, finish: Finish) -> FactSubject:
        words = palette.words_of_colour(finish.colour)
        tails = tuple(f"in {word}" for word in words)
        self.facts.append(FurnitureFact(thing, "colour", finish.colour, words, tails))
        return thing

    def look(self, thing: FactSubject, finish: Finish, material: bool = True) -> FactSubject:
        """State the colour and pattern of a thing, and its material where that is worth a word."""
        self.paint(thing, finish)
        if finish.pattern is not None:
            words, tails = palette.PATTERN_WORDS[finish.pattern]
            self.facts.append(FurnitureFact(thing, "pattern", finish.pattern, words, tails))
        if material:
            kind = palette.MATERIALS[finish.material]
            self.facts.append(FurnitureFact(thing, "material", finish.material, kind.words, kind.tails))
        return thing

    def count(self, thing: FactSubject, number: int) -> None:
        self.facts.append(FurnitureFact(thing, "count", str(number), COUNTS[number], ()))

    def group(self, name: str, count: int, finish: Finish, one: str, material: bool = True) -> FactSubject:
        """State the number and the finish of parts of one name."""
        thing = counted_subject(name, count, one)
        self.count(thing, count)
        return self.look(thing, finish, material)

    def absent(self, thing: FactSubject) -> None:
        self.facts.append(FurnitureFact(thing, "absent", "true", ("no",), ()))

    def tell(
        self, thing: FactSubject, attribute: Attribute, *words: str, sides: frozenset[Side] = EVERYWHERE
    ) -> None:
        """State a size, shape or place in any of these words, the first its value; none: state nothing."""
        if words:
            before, after = ((), words) if attribute == "place" else (words, ())
            self.facts.append(FurnitureFact(thing, attribute, words[0], before, after, sides))

    def piece(self, kind: str) -> FurniturePiece:
        """The finished piece, with the facts that can be seen on it."""
        assert self.whole is not None, f"{kind} never called begin()"
        assert self.main is not None
        groups: dict[str, list[PartMesh]] = {}
        for part in self.parts:
            groups.setdefault(part.name, []).append(part.mesh)
        sides = visible_sides([merge(group) for group in groups.values()])
        seen = dict(zip(groups, sides, strict=True))
        facts = [replace(fact, sides=_sides(fact, seen)) for fact in self.facts]
        visible = tuple(fact for fact in facts if fact.sides)
        return FurniturePiece(kind, self.whole, self.main, tuple(self.parts), visible)


def _sides(fact: FurnitureFact, seen: dict[str, frozenset[Side]]) -> frozenset[Side]:
    """The sides where the parts of the fact are visible; a fact about no part keeps its own sides."""
    named = [seen[name] for name in fact.thing.parts if name in seen]
    return frozenset[Side]().union(*named) if named else fact.sides
