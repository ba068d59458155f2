"""How a tower's pictures and texts must be prepared, derived from its recipe section."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from training.recipes.schema import (
    BertTextSection,
    OpenClipImageSection,
    OpenClipTextSection,
    SmallImageSection,
    SmallTextSection,
)
from training.towers import small
from training.towers.base import TowerError
from training.towers.bert import PAD
from training.towers.model import catalogue
from training.towers.tokenizers import TrainedTokenizer, clip_tokenizer, read_definition, train_definition


def image_spec(section: SmallImageSection | OpenClipImageSection) -> ImageSpec:
    if isinstance(section, SmallImageSection):
        return small.image_spec(section)
    spec: ImageSpec = catalogue().image_spec(section)
    return spec


def text_spec(
    section: SmallTextSection | BertTextSection | OpenClipTextSection, tokenizer: TrainedTokenizer
) -> TextSpec:
    return TextSpec(
        cleaning=tokenizer.cleaning,
        context=section.context,
        start=tokenizer.start,
        end=tokenizer.end,
        pad=tokenizer.pad,
        length=_length(section),
    )


def tokenizer_for(
    section: SmallTextSection | BertTextSection | OpenClipTextSection, texts: Iterable[str]
) -> TrainedTokenizer:
    """The tower's tokenizer: its model's own, a named one, or one learned from `texts`."""
    if isinstance(section, OpenClipTextSection):
        return _own_tokenizer(section)
    if isinstance(section, SmallTextSection) or section.tokenizer is None:
        return train_definition(texts, section.vocabulary)
    given = read_definition(Path(section.tokenizer), "bert")
    if given.start is None or given.pad != PAD:
        raise TowerError(f"{section.tokenizer} is not BERT's kind: a class id in front, and {PAD} as its pad")
    return given


def _own_tokenizer(section: OpenClipTextSection) -> TrainedTokenizer:
    cleaning = catalogue().cleaning(section.model)
    if cleaning == "clip" and section.tokenizer is None:
        return clip_tokenizer()
    if cleaning == "clip":
        raise TowerError(f"{section.model} reads with CLIP's tokenizer; remove tokenizer from [text]")
    if section.tokenizer is None:
        raise TowerError(
            f"{section.model} does not read as CLIP does; name its tokenizer.json: tokenizer = 'FILE'"
        )
    return read_definition(Path(section.tokenizer), cleaning)


def _length(section: SmallTextSection | BertTextSection | OpenClipTextSection) -> Literal["dynamic", "fixed"]:
    """Only where the end of the text is read by a causal tower, what comes after it may be cut."""
    if section.tokens != "class" or isinstance(section, BertTextSection):
        return "fixed"
    return (
        "dynamic"
        if isinstance(section, SmallTextSection) or catalogue().reads_to_the_end(section.model)
        else "fixed"
    )
