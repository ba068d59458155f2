"""What can be asked with. Each kind of question knows how it is sensed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from app.senses import Sensed, Senses
from app.uploads import Mesh
from multifold.types import Pool, Side


class Clue(ABC):
    """Something to search with."""

    @abstractmethod
    async def sense(self, senses: Senses) -> Sensed:
        """What the encoder makes of this clue."""


@dataclass(frozen=True)
class Words(Clue):
    """A text to search with."""

    text: str

    async def sense(self, senses: Senses) -> Sensed:
        """Read it."""
        return await senses.text(self.text)


@dataclass(frozen=True)
class Picture(Clue):
    """A picture to search with, as the bytes of its file."""

    data: bytes

    async def sense(self, senses: Senses) -> Sensed:
        """Look at it."""
        return await senses.image(self.data)


@dataclass(frozen=True)
class Shape(Clue):
    """A mesh to search with."""

    mesh: Mesh

    async def sense(self, senses: Senses) -> Sensed:
        """Draw it and look at it."""
        return await senses.mesh(self.mesh)


@dataclass(frozen=True)
class Question:
    """A clue, and how to search with it."""

    clue: Clue
    target: Side = "shape"
    limit: int = 10
    pool: Pool = "mean"
