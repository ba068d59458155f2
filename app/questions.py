"""What can be asked with. Each kind of clue knows how it is sensed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from app.errors import ApiError
from app.observer import Mesh
from app.schemas.search import Duplicates, Lexical
from app.senses import Sensed, Senses
from app.settings import Settings
from index.truth.filters import Filter
from multifold.calibration import Curve, name
from multifold.types import SIDES, Hit, Mix, Pool, Query, Side, Target, Vector, Words


class Clue(ABC):
    """Something to search with."""

    side: ClassVar[Side | None] = None  # as what it is compared; None where confidence has no meaning

    @abstractmethod
    async def sense(self, senses: Senses) -> Sensed:
        """What the encoder makes of this clue."""


@dataclass(frozen=True)
class Text(Clue):
    """A text to search with."""

    side = "text"
    text: str

    async def sense(self, senses: Senses) -> Sensed:
        """Read it."""
        return await senses.text(self.text)


@dataclass(frozen=True)
class Picture(Clue):
    """A picture to search with, as the bytes of its file."""

    side = "image"
    data: bytes

    async def sense(self, senses: Senses) -> Sensed:
        """Look at it."""
        return await senses.image(self.data)


@dataclass(frozen=True)
class Shape(Clue):
    """A mesh to search with."""

    side = "shape"
    mesh: Mesh

    async def sense(self, senses: Senses) -> Sensed:
        """Draw it and look at it."""
        return await senses.mesh(self.mesh)


@dataclass(frozen=True)
class Known(Clue):
    """An item of this collection: one of its sides, the first of these that it has."""

    id: str
    sides: tuple[Side, ...]

    async def sense(self, senses: Senses) -> Sensed:
        """Recall it."""
        return await senses.item(self.id, self.sides)


@dataclass(frozen=True)
class Given(Clue):
    """An index vector that somebody has already."""

    numbers: tuple[float, ...]

    async def sense(self, senses: Senses) -> Sensed:
        """Take it as it is."""
        return senses.given(self.numbers)


@dataclass(frozen=True)
class Options:
    """How to search."""

    target: Target = "shape"
    limit: int = 10
    offset: int = 0
    where: Filter | None = None
    pool: Pool = "mean"
    min_score: float | None = None
    min_confidence: float | None = None
    exact: bool = False
    lexical: Lexical | None = None  # as the service is set
    duplicates: Duplicates = "show"
    explain: bool = False  # the score of each side of a hit is told too


@dataclass(frozen=True)
class Question:
    """Clues, each with a weight if there are several, and how to search with them."""

    clues: tuple[tuple[Clue, float], ...]
    options: Options

    @property
    def side(self) -> Side | None:
        """As what it is compared; a mix is nothing that was ever calibrated."""
        return self.clues[0][0].side if self.alone else None

    @property
    def alone(self) -> bool:
        """Whether there is one clue only, and not turned round."""
        return len(self.clues) == 1 and self.clues[0][1] == 1

    def query(self, vectors: list[Vector], settings: Settings) -> Query:
        """What the index is asked."""
        mixed = Mix(tuple((vector, weight) for vector, (_, weight) in zip(vectors, self.clues, strict=True)))
        options = self.options
        vector = mixed.parts[0][0] if self.alone else mixed
        words = self._words(options.lexical or settings.lexical, settings.lexical_weight)
        return Query(vector, options.target, options.limit, options.pool, options.offset, words)

    def _words(self, lexical: Lexical, counts: float) -> Words | None:
        """The texts that are asked with, but for those that it is away from."""
        texts = [clue.text for clue, weight in self.clues if isinstance(clue, Text) and weight > 0]
        if lexical == "only" and not texts:
            raise ApiError(422, "no_words", "'lexical': 'only' looks for words; ask with a text")
        return None if lexical == "off" or not texts else Words(" ".join(texts), counts, lexical == "only")


def check_confidence(curves: Mapping[str, Curve], question: Question) -> None:
    """Refuse a threshold on a confidence that nobody knows."""
    options = question.options
    if options.min_confidence is None:
        return
    targets = SIDES if options.target == "any" else (options.target,)
    asked = question.side
    if asked is None or not any(name(asked, side, options.pool) in curves for side in targets):
        sentence = "no confidence is known for this: it needs one text, image or mesh, and a bundle that is "
        raise ApiError(422, "no_calibration", f"{sentence}calibrated for it; use 'min_score' instead")


def passes(hit: Hit, options: Options) -> bool:
    """Whether a hit is good enough for those who asked."""
    if options.min_score is not None and hit.score < options.min_score:
        return False
    least = options.min_confidence
    return least is None or (hit.confidence is not None and hit.confidence >= least)
