"""What can be asked with. Each kind of question knows how it is sensed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from app.observer import Observer, Sensed
from app.uploads import Mesh
from multifold.types import Pool, Side


class Clue(ABC):
    """Something to search with."""

    slow: ClassVar[bool] = False  # drawing takes seconds; it must not keep others waiting

    @abstractmethod
    def sense(self, observer: Observer) -> Sensed:
        """The feature of this clue."""


@dataclass(frozen=True)
class Words(Clue):
    """A text to search with."""

    text: str

    def sense(self, observer: Observer) -> Sensed:
        """Read it."""
        return observer.text(self.text)


@dataclass(frozen=True)
class Picture(Clue):
    """A picture to search with, as the bytes of its file."""

    data: bytes

    def sense(self, observer: Observer) -> Sensed:
        """Look at it."""
        return observer.image(self.data)


@dataclass(frozen=True)
class Shape(Clue):
    """A mesh to search with."""

    mesh: Mesh
    slow: ClassVar[bool] = True

    def sense(self, observer: Observer) -> Sensed:
        """Draw it and look at it."""
        return observer.mesh(self.mesh)


@dataclass(frozen=True)
class Question:
    """A clue, and how to search with it."""

    clue: Clue
    target: Side = "shape"
    limit: int = 10
    pool: Pool = "mean"
