"""A piece of furniture: parts, facts and captions; and the workbench where a kind puts one together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from training.data.furniture.modeling import facts, palette
from training.data.furniture.modeling.facts import EVERYWHERE, Attribute, FactSubject, FurnitureFact, Side
from training.data.furniture.modeling.palette import Finish
from training.data.furniture.modeling.primitives import PartMesh, merge
from training.data.furniture.modeling.visibility import visible_sides

T = TypeVar("T")


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
        made = palette.MATERIALS[material]
        taken = [finish.colour for finish in unlike]
        free = [name for name in made.colours if not any(palette.are_alike(name, other) for other in taken)]
        pattern = self.pick(made.patterns) if made.patterns and self.chance(patterned) else None
        return Finish(self.pick(free or made.colours), material, pattern, self.span(0.9, 1.06))

    def begin(self, finish: Finish, nouns: Sequence[str], *parts: str, told: bool = True) -> FactSubject:
        """Name the piece and its main parts; where these share one finish, it is that of the whole."""
        self.main, self.whole = finish, FactSubject("whole", tuple(nouns), parts)
        if told:
            self.look(self.whole, finish)
        return self.whole

    def add(self, name: str, finish: Finish, *meshes: PartMesh) -> None:
        self.parts.extend(FurniturePart(name, finish, mesh) for mesh in meshes)

    def look(self, thing: FactSubject, finish: Finish, made: bool = True) -> None:
        """State the colour and pattern of a thing, and its material where that is worth a word."""
        self.facts.append(facts.colour(thing, finish.colour))
        if finish.pattern is not None:
            self.facts.append(facts.pattern(thing, finish.pattern))
        if made:
            self.facts.append(facts.material(thing, finish.material))

    def count(self, thing: FactSubject, number: int) -> None:
        self.facts.append(facts.count(thing, number))

    def absent(self, thing: FactSubject) -> None:
        self.facts.append(facts.absent(thing))

    def tell(
        self,
        thing: FactSubject,
        attribute: Attribute,
        value: str,
        *words: str,
        sides: frozenset[Side] = EVERYWHERE,
    ) -> None:
        """State a size, shape or place; the words for it are the value itself, unless given."""
        spoken = words or (value,)
        before, after = ((), spoken) if attribute == "place" else (spoken, ())
        self.facts.append(FurnitureFact(thing, attribute, value, before, after, sides))

    def piece(self, kind: str) -> FurniturePiece:
        """The finished piece, with the facts that can be seen on it."""
        assert self.whole is not None, f"{kind} never called begin()"
        assert self.main is not None
        seen = _seen(self.parts)
        kept = [replace(fact, sides=_sides(fact, seen)) for fact in self.facts]
        visible = tuple(fact for fact in kept if fact.sides)
        return FurniturePiece(kind, self.whole, self.main, tuple(self.parts), visible)


def _seen(parts: Sequence[FurniturePart]) -> dict[str, frozenset[Side]]:
    groups: dict[str, list[PartMesh]] = {}
    for part in parts:
        groups.setdefault(part.name, []).append(part.mesh)
    return dict(zip(groups, visible_sides([merge(group) for group in groups.values()]), strict=True))


def _sides(fact: FurnitureFact, seen: dict[str, frozenset[Side]]) -> frozenset[Side]:
    """The sides where the parts of the fact are visible; a fact about no part keeps its own sides."""
    named = [seen[name] for name in fact.thing.parts if name in seen]
    return frozenset[Side]().union(*named) if named else fact.sides
