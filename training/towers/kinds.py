"""What a kind of tower knows of itself: each section of a recipe belongs to one kind.

A kind builds its tower, says how it wants what it reads, and, for texts, which tokenizer it reads with.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from torch import nn

from multifold.bundle.point_groups import PointSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from training.recipes.schema import RecipeSection
from training.towers.assemble import FeatureSpace, Fetch
from training.towers.tokenizers import TrainedTokenizer

Section = TypeVar("Section", bound=RecipeSection)


@dataclass(frozen=True)
class TowerContext:
    """What a tower is built for, beside its section."""

    space: FeatureSpace
    vocabulary: int
    fetch: Fetch  # a model of open_clip, which both sides share
    pretrained: bool


class TowerKind(ABC, Generic[Section]):
    """A kind of tower over pictures, texts or points."""

    @abstractmethod
    def build(self, section: Section, context: TowerContext) -> nn.Module:
        """A fresh tower, or one with the weights that the section names."""

    def find_weights(self, section: Section) -> None:
        """Look for the weights that the section names, before work that is in vain without them."""


class ImageKind(TowerKind[Section]):
    @abstractmethod
    def spec(self, section: Section) -> ImageSpec: ...


class PointKind(TowerKind[Section]):
    @abstractmethod
    def spec(self, section: Section) -> PointSpec: ...


class TextKind(TowerKind[Section]):
    @abstractmethod
    def spec(self, section: Section, tokenizer: TrainedTokenizer) -> TextSpec: ...

    @abstractmethod
    def tokenizer(self, section: Section, texts: Iterable[str]) -> TrainedTokenizer:
        """The tower's own tokenizer, a named one, or one learned from `texts`."""


def text_spec(tokenizer: TrainedTokenizer, context: int, *, dynamic: bool) -> TextSpec:
    """How token rows are made; they may be cut after the end of a text where a causal tower reads that."""
    length: Literal["dynamic", "fixed"] = "dynamic" if dynamic else "fixed"
    return TextSpec(tokenizer.cleaning, context, tokenizer.start, tokenizer.end, tokenizer.pad, length)
