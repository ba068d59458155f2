"""How towers want to see and to read, told by a recipe's sections alone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from multifold.preprocess import ImageSpec
from multifold.tokens import TextSpec
from training.sections import BertText, OpenClipImage, OpenClipText, SmallImage, SmallText
from training.tokenizers import TrainedTokenizer, clip_tokenizer, read_definition, train_definition
from training.towers import small
from training.towers.base import TowerError
from training.towers.bert import PAD
from training.towers.model import catalogue


def image_spec(section: SmallImage | OpenClipImage) -> ImageSpec:
    """How the tower wants its pictures."""
    if isinstance(section, SmallImage):
        return small.image_spec(section)
    spec: ImageSpec = catalogue().image_spec(section)
    return spec


def text_spec(section: SmallText | BertText | OpenClipText, tokenizer: TrainedTokenizer) -> TextSpec:
    """How the tower wants its texts."""
    return TextSpec(
        cleaning=tokenizer.cleaning,
        context=section.context,
        start=tokenizer.start,
        end=tokenizer.end,
        pad=tokenizer.pad,
        length=_length(section),
    )


def tokenizer_for(section: SmallText | BertText | OpenClipText, texts: Iterable[str]) -> TrainedTokenizer:
    """What the tower reads with: its model's own tokenizer, a named one, or one learned from `texts`."""
    if isinstance(section, OpenClipText):
        return _own_tokenizer(section)
    if isinstance(section, SmallText) or section.tokenizer is None:
        return train_definition(texts, section.vocabulary)
    given = read_definition(Path(section.tokenizer), "bert")
    if given.start is None or given.pad != PAD:
        raise TowerError(f"{section.tokenizer} is not BERT's kind: a class id in front, and {PAD} as its pad")
    return given


def _own_tokenizer(section: OpenClipText) -> TrainedTokenizer:
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


def _length(section: SmallText | BertText | OpenClipText) -> Literal["dynamic", "fixed"]:
    """Only where the end of the text is read by a causal tower, what comes after it may be cut."""
    if section.tokens != "class" or isinstance(section, BertText):
        return "fixed"
    return (
        "dynamic"
        if isinstance(section, SmallText) or catalogue().reads_to_the_end(section.model)
        else "fixed"
    )
