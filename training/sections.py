"""What a recipe may say of its towers."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Count: TypeAlias = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A part of a recipe; a key that nobody reads is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TowerSection(Section):
    """What all towers can do."""

    tokens: Literal["class", "all"] | Count = "class"  # what features are read from; a number: class tokens
    final_norm: bool = True
    scale: Literal["auto", "none", "learned", "clamped"] = "auto"  # auto: learned in hyperbolic geometries
    trainable: Literal["all", "head"] | Count = "all"  # a number: so many last blocks, and the head
    checkpointing: bool = False  # less memory for more time


class SmallImage(TowerSection):
    """A convolutional stem and a transformer over its grid."""

    kind: Literal["small"] = "small"
    size: Count = 96
    stem: tuple[int, ...] = (32, 64, 128)
    width: Count = 192
    depth: Count = 4
    heads: Count = 4


class SmallText(TowerSection):
    """A causal transformer over a small vocabulary of its own, read out at the end of the text."""

    kind: Literal["small"] = "small"
    pads: Literal["masked", "own", "kept"] = "masked"  # what pads are among all tokens
    vocabulary: Count = 1000
    context: Count = 64
    width: Count = 192
    depth: Count = 3
    heads: Count = 4


class BertText(TowerSection):
    """A bidirectional transformer, read out at class tokens in front of the text."""

    kind: Literal["bert"] = "bert"
    tokenizer: str | None = None  # a tokenizer.json; without one, a vocabulary is learned
    vocabulary: Count = 30522
    context: Count = 77
    width: Count = 512
    depth: Count = 12
    heads: Count = 8


class OpenClipImage(TowerSection):
    """The image side of a model that open_clip knows."""

    kind: Literal["openclip"] = "openclip"
    still: bool = False  # BatchNorm keeps its statistics, and uses them in training as well
    model: str
    pretrained: str | None = None  # one of open_clip's tags, or a file; none: random weights
    size: Count = 224


class OpenClipText(TowerSection):
    """The text side of a model that open_clip knows."""

    kind: Literal["openclip"] = "openclip"
    pads: Literal["masked", "own", "kept"] = "masked"
    model: str
    pretrained: str | None = None
    tokenizer: str | None = None  # a tokenizer.json, for models that do not read as CLIP does
    context: Count = 77


TOWERS: Mapping[str, Mapping[str, type[TowerSection]]] = {
    "image": {"small": SmallImage, "openclip": OpenClipImage},
    "text": {"small": SmallText, "bert": BertText, "openclip": OpenClipText},
}


def kind(section: Any) -> str:  # noqa: ANN401 (a section, or what should become one)
    """Which tower a section speaks of; the small one if it does not say."""
    named = section.get("kind", "small") if isinstance(section, dict) else getattr(section, "kind", "small")
    return str(named)


ImageSection: TypeAlias = Annotated[
    Annotated[SmallImage, Tag("small")] | Annotated[OpenClipImage, Tag("openclip")], Discriminator(kind)
]
TextSection: TypeAlias = Annotated[
    Annotated[SmallText, Tag("small")]
    | Annotated[BertText, Tag("bert")]
    | Annotated[OpenClipText, Tag("openclip")],
    Discriminator(kind),
]
